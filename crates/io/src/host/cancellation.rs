//! Cancellation of a task, such as a copy, in all threads that work on it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Request to stop one piece of work. Clones are the same request.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<Request>);

#[derive(Debug, Default)]
struct Request {
    is_cancelled: AtomicBool,
    /// The whole work, of which this is a part.
    whole: Option<Cancellation>,
}

/// Stops the work of its [`Cancellation`] when it is dropped.
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Cancellation {
    /// Returns the cancellation of the present task, for a thread that helps with the task.
    pub fn current() -> Self {
        CURRENT.with_borrow(Self::clone)
    }

    /// Returns the cancellation of a part of this work. The part stops with the whole, or alone.
    #[must_use]
    pub fn part(&self) -> Self {
        Self(Arc::new(Request {
            is_cancelled: AtomicBool::new(false),
            whole: Some(self.clone()),
        }))
    }

    /// Requests the stop.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Relaxed);
    }

    /// Requests the stop when the returned value is dropped: by a thread that no longer waits for the result.
    #[must_use]
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// Reports whether the stop was requested.
    pub fn is_cancelled(&self) -> bool {
        let whole = || self.0.whole.as_ref().is_some_and(Self::is_cancelled);
        self.0.is_cancelled.load(Relaxed) || whole()
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
    fn part_of_a_task_stops_alone_or_with_the_task() {
        let task = Cancellation::default();
        let parts = [(); 2].map(|()| task.part());
        drop(parts[0].cancel_on_drop());
        let are_cancelled = || parts.each_ref().map(Cancellation::is_cancelled);
        assert_eq!(
            (are_cancelled(), task.is_cancelled()),
            ([true, false], false)
        );
        task.cancel();
        assert_eq!(are_cancelled(), [true, true]);
    }

    #[test]
    fn panicking_work_leaves_no_cancellation_behind() {
        let cancelled = Cancellation::default();
        cancelled.cancel();
        catch_unwind(|| cancelled.cover(|| panic!("broken on purpose"))).unwrap_err();
        assert!(!is_requested());
    }
}
