//! Tests that measure time, and tests that may load the processors meanwhile.

use std::env;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;

/// A turn of the machine, of this process or another; it ends when the value is dropped.
#[derive(Debug)]
pub struct Turn {
    place: File,
}

impl Turn {
    /// Waits until no test has a turn, and keeps all others waiting: for a test that measures rates or delays.
    pub fn alone() -> Self {
        Self::take(File::lock)
    }

    /// Waits until no test is alone: for a test whose result does not depend on the load of the machine.
    pub fn beside_others() -> Self {
        Self::take(File::lock_shared)
    }

    /// Everyone passes the gate in turn, so that a test that wants to be alone gets there.
    fn take(lock: fn(&File) -> io::Result<()>) -> Self {
        let gate = Self {
            place: open("turn.gate"),
        };
        locked(File::lock(&gate.place));
        let place = open("turn");
        locked(lock(&place));
        Self { place }
    }
}

impl Drop for Turn {
    /// Unlocks, since a child process may still have the file open.
    fn drop(&mut self) {
        locked(self.place.unlock());
    }
}

/// Opens a lock beside the tests that run, one for all of a build.
fn open(name: &str) -> File {
    let folder = env::current_exe().ok();
    let folder = folder.and_then(|exe| exe.parent().map(PathBuf::from));
    let path = folder.unwrap_or_default().join(name);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.unwrap_or_else(|why| panic!("cannot open the lock {}: {why}", path.display()))
}

fn locked(done: io::Result<()>) {
    done.unwrap_or_else(|why| panic!("cannot lock a turn of the machine: {why}"));
}
