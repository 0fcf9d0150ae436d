//! Exclusive turns for tests that measure time, and shared ones for tests that load the processors.

use std::env;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::thread;

/// Turn of a test on this host, across all processes. It ends when the value is dropped.
#[derive(Debug)]
pub struct Turn {
    place: File,
}

impl Turn {
    /// Waits until no other test has a turn, and blocks all others. For a test that measures rates
    /// or delays.
    ///
    /// # Panics
    ///
    /// Panics if the test is not below a module `alone`: `scripts/test` runs those after all others,
    /// which would wait for it.
    pub fn alone() -> Self {
        let thread = thread::current();
        let name = thread.name().unwrap_or_default();
        // the name of a thread that a test started says nothing
        let is_test = name.contains("::");
        assert!(
            !is_test || name.contains("alone::"),
            "the test {name} measures; move it below a module `alone`"
        );
        Self::take(File::lock)
    }

    /// Waits until no test runs alone. For a test whose result does not depend on the host's load.
    pub fn beside_others() -> Self {
        Self::take(File::lock_shared)
    }

    /// Takes a turn. All tests pass the gate one by one, so that a test that must run alone is not
    /// starved.
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
    /// Unlocks explicitly, since a child process may have the file open.
    fn drop(&mut self) {
        locked(self.place.unlock());
    }
}

/// Opens a lock file beside the test binaries, one per build.
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
