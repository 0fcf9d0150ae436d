//! Cancellation of a task, such as a copy, in all threads that work on it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Request to stop one piece of work. Clones are the same request.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    requested: Arc<AtomicBool>,
    /// That of the work of which this is a part.
    whole: Option<Box<Self>>,
}

impl Cancellation {
    /// Returns the cancellation of the present task, for a thread that helps with the task.
    pub fn current() -> Self {
        CURRENT.with_borrow(Self::clone)
    }

    /// Returns the cancellation of a part of the present task. It stops with the task, and alone.
    pub fn of_part() -> Self {
        Self {
            whole: Some(Box::new(Self::current())),
            ..Self::default()
        }
    }

    /// Requests the stop.
    pub fn cancel(&self) {
        self.requested.store(true, Relaxed);
    }

    /// Reports whether the stop was requested.
    pub fn is_cancelled(&self) -> bool {
        let is_whole_cancelled = || {
            self.whole
                .as_ref()
                .is_some_and(|whole| whole.is_cancelled())
        };
        self.requested.load(Relaxed) || is_whole_cancelled()
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
    fn part_of_a_task_stops_alone_and_with_the_task() {
        let task = Cancellation::default();
        task.clone().cover(|| {
            let [one, other] = [(); 2].map(|()| Cancellation::of_part());
            one.cancel();
            assert!(one.clone().cover(is_requested));
            assert!(!other.clone().cover(is_requested));
            assert!(!is_requested());
            task.cancel();
            assert!(other.cover(is_requested));
        });
    }

    #[test]
    fn panicking_work_leaves_no_cancellation_behind() {
        let cancelled = Cancellation::default();
        cancelled.cancel();
        catch_unwind(|| cancelled.cover(|| panic!("broken on purpose"))).unwrap_err();
        assert!(!is_requested());
    }
}
