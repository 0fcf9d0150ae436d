//! Turns of tests on this host: exclusive turns for tests that measure, shared turns for tests that load the
//! processors.
//!
//! A test that measures but mostly waits takes a quiet turn, beside others of this kind.

use std::env;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::thread;

/// Turn of a test on this host, among all processes. It ends when the value is dropped.
#[derive(Debug)]
pub struct Turn {
    /// Held locks: the lock of busy tests, the lock of quiet tests, or both.
    places: Vec<File>,
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
        assert_below("alone");
        Self::take(|| vec![exclusive(BUSY), exclusive(QUIET)])
    }

    /// Waits until only tests with quiet turns run, and blocks all others. For a test that measures
    /// rates or delays, mostly waits, and is not disturbed by others of this kind.
    ///
    /// # Panics
    ///
    /// Panics if the test is not below a module `quiet`, which `scripts/test` runs after busy tests.
    pub fn quiet() -> Self {
        assert_below("quiet");
        Self::take(|| {
            drop(Self::of(exclusive(BUSY)));
            vec![shared(QUIET)]
        })
    }

    /// Waits until no test runs that measures. For a test whose result does not depend on the host's load.
    pub fn beside_others() -> Self {
        Self::take(|| {
            drop(Self::of(exclusive(QUIET)));
            vec![shared(BUSY)]
        })
    }

    /// Takes a turn. All tests pass the gate one by one. So a test that must run alone is not starved,
    /// and no busy test comes between two steps of `lock`.
    fn take(lock: impl FnOnce() -> Vec<File>) -> Self {
        let _gate = Self::of(exclusive("turn.gate"));
        Self { places: lock() }
    }

    fn of(place: File) -> Self {
        Self {
            places: vec![place],
        }
    }
}

impl Drop for Turn {
    /// Unlocks explicitly, since a child process may have inherited the file.
    fn drop(&mut self) {
        for place in &self.places {
            locked(place.unlock());
        }
    }
}

/// Lock of tests that run beside others.
const BUSY: &str = "turn.busy";
/// Lock of quiet tests.
const QUIET: &str = "turn.quiet";

/// Checks that the test is in a module named `module`.
fn assert_below(module: &str) {
    let thread = thread::current();
    let name = thread.name().unwrap_or_default();
    // the name of a thread that a test started says nothing
    let is_test = name.contains("::");
    assert!(
        !is_test || name.contains(&format!("{module}::")),
        "the test {name} measures; move it below a module `{module}`"
    );
}

fn exclusive(name: &str) -> File {
    let place = open(name);
    locked(place.lock());
    place
}

fn shared(name: &str) -> File {
    let place = open(name);
    locked(place.lock_shared());
    place
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
