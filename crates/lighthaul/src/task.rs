//! Work in a separate thread: result and cancellation.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_session::error::{Error, caught};

use crate::fault::Fault;

/// Running work. Dropping this value cancels it.
pub(crate) struct Task<T> {
    shared: Arc<Shared<T>>,
    cancellation: Cancellation,
}

/// State that the thread shares with its [`Task`].
#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

#[derive(Debug)]
struct State<T> {
    result: Option<Result<T, Error>>,
    /// One for each task that waits.
    wakers: Vec<Waker>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                result: None,
                wakers: Vec::new(),
            }),
            ended: Condvar::new(),
        }
    }
}

impl<T: Clone + Send + 'static> Task<T> {
    /// Starts `work`, which ends early if it is cancelled. `name` is the name of the thread.
    pub(crate) fn start(
        name: &'static str,
        work: impl FnOnce(Cancellation) -> Result<T, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let task = Self {
            shared: Arc::default(),
            cancellation: Cancellation::default(),
        };
        let (told, cancellation) = (Arc::clone(&task.shared), task.cancellation.clone());
        let run = move || told.end(caught(name, || work(cancellation)));
        let thread = thread::Builder::new().name(name.into());
        thread.spawn(run).map_err(Fault::Thread)?;
        Ok(task)
    }

    /// Returns the result, if the work has ended.
    pub(crate) fn result(&self) -> Option<Result<T, Error>> {
        self.shared.state().result.clone()
    }

    /// Waits for the result.
    pub(crate) fn wait(&self) -> Result<T, Error> {
        let mut state = self.shared.state();
        loop {
            if let Some(result) = state.result.clone() {
                return result;
            }
            let woken = self.shared.ended.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the result, for `timeout` at most.
    pub(crate) fn wait_for(&self, timeout: Duration) -> Option<Result<T, Error>> {
        let state = self.shared.state();
        let is_running = |state: &mut State<T>| state.result.is_none();
        let waited = self
            .shared
            .ended
            .wait_timeout_while(state, timeout, is_running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.result.clone()
    }

    /// Returns the result, or stores the waker of `context`, beside those of other tasks.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<T, Error>> {
        let mut state = self.shared.state();
        if let Some(result) = state.result.clone() {
            return Poll::Ready(result);
        }
        let waker = context.waker();
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        Poll::Pending
    }
}

impl<T> Task<T> {
    /// Cancels the work.
    pub(crate) fn cancel(&self) {
        self.cancellation.cancel();
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl<T: Debug> Debug for Task<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.shared.state().result, f)
    }
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the result, and wakes the threads that wait for it.
    fn end(&self, result: Result<T, Error>) {
        let mut state = self.state();
        state.result = Some(result);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.ended.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::sync::mpsc;
    use std::task::Wake;

    use super::*;

    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn each_of_two_tasks_that_wait_is_woken_once() {
        let (release, released) = mpsc::channel::<()>();
        let task = Task::start("waited for", move |_| {
            released.recv().ok();
            Ok(7)
        })
        .unwrap();
        let counts = [(); 2].map(|()| Arc::new(Count(AtomicU32::new(0))));
        for count in counts.iter().chain(&counts) {
            let waker = Waker::from(Arc::clone(count));
            assert!(task.poll(&Context::from_waker(&waker)).is_pending());
        }
        release.send(()).unwrap();
        assert_eq!(task.wait().unwrap(), 7);
        // the wakers are called after the result is there
        while counts.iter().any(|count| count.0.load(Relaxed) == 0) {
            thread::yield_now();
        }
        assert!(counts.iter().all(|count| count.0.load(Relaxed) == 1));
    }
}
