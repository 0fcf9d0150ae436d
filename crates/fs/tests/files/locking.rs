//! Lock files that are removed by their holders.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lighthaul_fs::disk::Root;

use crate::scratch::Scratch;

/// Threads that lock the same name.
const THREADS: usize = 4;
/// Attempts of each thread.
const ATTEMPTS: usize = 20_000;

/// A holder removes the file before it releases the lock. No other thread may then hold a lock on
/// the removed file, while a third one locks a new file of that name.
#[test]
fn removed_lock_file_is_not_locked() {
    let scratch = Scratch::on_disk("locking");
    let (holders, locked) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let mut root = Root::open(&scratch.0).unwrap();
        let path = Path::new("lock");
        for _ in 0..ATTEMPTS {
            let Ok(file) = root.lock(path) else { continue };
            assert_eq!(
                holders.fetch_add(1, Ordering::SeqCst),
                0,
                "two hold the lock"
            );
            thread::yield_now();
            holders.fetch_sub(1, Ordering::SeqCst);
            // from here on another thread may create and lock a new file of this name
            root.remove(path).unwrap();
            drop(file);
            locked.fetch_add(1, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    assert!(locked.into_inner() > 0);
}
