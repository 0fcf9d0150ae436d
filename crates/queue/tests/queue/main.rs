//! A queue in a file: its rules, against a reference, with processes that are killed.
#![expect(clippy::unwrap_used, reason = "a test")]

mod bounds;
mod file;
mod full;
mod kill;
mod reference;
mod requests;
mod rules;
mod series;
mod turns;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};

use lighthaul_queue::{JobSpec, Queue};

/// Directory of a test, removed at its end.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    fn file(&self) -> PathBuf {
        self.path.join("queue.sqlite")
    }

    /// Returns the place of the queue.
    fn place(&self) -> PathBuf {
        self.file()
    }

    fn queue(&self) -> Queue {
        Queue::open(&self.place()).unwrap()
    }

    /// Removes all jobs.
    fn clear(&self) {
        fs::remove_file(self.file()).ok();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).ok();
    }
}

/// Job of `ada` that runs a command without meaning.
fn spec() -> JobSpec {
    JobSpec {
        owner: "ada".to_owned(),
        command: vec!["cp".to_owned(), "a".to_owned(), "b".to_owned()],
        directory: "/".into(),
        retries: 2,
        ..JobSpec::default()
    }
}

/// Cases of random work.
const CASES: u32 = 200;
/// Kills of workers.
const KILLS: usize = 500;
