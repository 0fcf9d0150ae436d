//! Priority of the threads that change devices.
//!
//! All domains of a path change their devices at the same time. On a busy host, an ordinary thread may wait for a
//! processor for ten milliseconds and more.

use rustix::process::setpriority_process;

/// Lets the calling thread run before ordinary threads. Without the right to do so, its priority stays.
pub(crate) fn run_first() {
    // on Linux, no process means the calling thread
    setpriority_process(None, NICE).ok();
}

/// Nice level of the threads; ordinary threads have 0, and -20 is the highest priority.
const NICE: i32 = -15;

#[cfg(test)]
pub(crate) mod tests {
    use std::thread;

    use lighthaul_testkit::lacks;
    use rustix::process::getpriority_process;

    use super::*;

    /// Skips a test if this process may not raise the priority of a thread. Returns true if it did.
    pub(crate) fn lacks_priority(test: &str) -> bool {
        let raised = thread::spawn(|| setpriority_process(None, NICE))
            .join()
            .unwrap();
        let missing = |why| format!("needs the right to raise priorities: {why}");
        lacks(test, raised.map_err(missing))
    }

    /// Returns true if the calling thread runs before ordinary threads.
    pub(crate) fn runs_first() -> bool {
        getpriority_process(None).unwrap() == NICE
    }

    #[test]
    fn only_the_calling_thread_runs_first() {
        if lacks_priority("only_the_calling_thread_runs_first") {
            return;
        }
        let before = getpriority_process(None).unwrap();
        let other = thread::spawn(|| {
            run_first();
            runs_first()
        });
        assert!(other.join().unwrap());
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
