//! The tests of a queue, in a real `PostgreSQL` server, and what only a server can do.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../queue/bounds.rs"]
mod bounds;
#[path = "../queue/kill.rs"]
mod kill;
mod lost;
#[path = "../queue/reference.rs"]
mod reference;
#[path = "../queue/requests.rs"]
mod requests;
#[path = "../queue/rules.rs"]
mod rules;
#[path = "../queue/series.rs"]
mod series;
mod server;
#[path = "../queue/turns.rs"]
mod turns;
#[path = "../queue/workers.rs"]
mod workers;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use lighthaul_queue::{JobSpec, Queue};
use lighthaul_testkit::PostgresServer;

/// Directory and tables of a test, removed at its end.
struct Folder {
    path: PathBuf,
    schema: String,
    server: Arc<PostgresServer>,
}

impl Folder {
    fn new(name: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let schema = format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let name = format!("postgres-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        let folder = Self {
            path,
            schema,
            server: shared(),
        };
        folder.ask(&format!("CREATE SCHEMA {}", folder.schema));
        folder
    }

    /// Returns the place of the queue.
    fn place(&self) -> PathBuf {
        self.server.url_of(&self.schema).into()
    }

    fn queue(&self) -> Queue {
        Queue::open(&self.place()).unwrap()
    }

    /// Removes all jobs.
    fn clear(&self) {
        drop(self.queue());
        let tables = [
            "job",
            "dependency",
            "ending",
            "event",
            "log",
            "owner",
            "request",
        ];
        let tables = tables.map(|table| format!("{}.{table}", self.schema));
        self.ask(&format!("TRUNCATE {} RESTART IDENTITY", tables.join(", ")));
    }

    fn ask(&self, sql: &str) {
        let client = postgres::Client::connect(&self.server.url(), postgres::NoTls);
        client.unwrap().batch_execute(sql).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).ok();
    }
}

/// Returns the server of all tests that run now.
fn shared() -> Arc<PostgresServer> {
    static SHARED: Mutex<Weak<PostgresServer>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(PostgresServer::start().unwrap());
        *shared = Arc::downgrade(&server);
        server
    })
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
const CASES: u32 = 40;
/// Kills of workers.
const KILLS: usize = 100;
