//! Cancellation of a task, such as a copy, in all threads that work on it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Request to stop one piece of work. Clones are the same request.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Returns the cancellation of the present task, for a thread that helps with the task.
    pub fn current() -> Self {
        CURRENT.with_borrow(Self::clone)
    }

    /// Requests the stop.
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    /// Reports whether the stop was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Runs `work`, during which [`super::interrupt`] reports a cancellation like a signal.
    pub fn cover<T>(self, work: impl FnOnce() -> T) -> T {
        let _outer = Outer(CURRENT.replace(self));
        work()
    }
}

/// Cancellation of the work around the present one.
struct Outer(Cancellation);

impl Drop for Outer {
    fn drop(&mut self) {
        CURRENT.set(self.0.clone());
    }
}

thread_local! {
    static CURRENT: RefCell<Cancellation> = RefCell::default();
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::thread;

    use super::*;
    use crate::host::interrupt::is_requested;

    #[test]
    fn request_stops_all_threads_of_its_task_and_no_other_task() {
        let [one, other] = [(); 2].map(|()| Cancellation::default());
        one.clone().cover(|| {
            other.clone().cover(|| {
                one.cancel();
                assert!(!is_requested());
            });
            assert!(is_requested());
            let helping = Cancellation::current();
            assert!(
                thread::spawn(|| helping.cover(is_requested))
                    .join()
                    .unwrap()
            );
            assert!(!thread::spawn(is_requested).join().unwrap());
        });
        assert!(!is_requested());
    }

    #[test]
    fn panicking_work_leaves_no_cancellation_behind() {
        let cancelled = Cancellation::default();
        cancelled.cancel();
        catch_unwind(|| cancelled.cover(|| panic!("broken on purpose"))).unwrap_err();
        assert!(!is_requested());
    }
}
