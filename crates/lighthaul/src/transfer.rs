//! A copy in a thread of its own: its progress, its end, and its cancellation.

use std::fmt::{self, Debug, Formatter};
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use lighthaul_copy::watch::{CopyEvent, CopyProgress, Summary};
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_session::error::{Error, caught};

use crate::event::Event;
use crate::fault::Fault;

/// Running copy. It is also a future, which needs no runtime: the thread of the copy wakes it.
///
/// The copy is cancelled when this value is dropped.
#[must_use = "a transfer that is dropped is cancelled"]
pub struct Transfer {
    shared: Arc<Shared>,
    cancellation: Cancellation,
}

/// State that the thread of a copy shares with its [`Transfer`].
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    progress: CopyProgress,
    result: Option<Result<Summary, Error>>,
    waker: Option<Waker>,
}

impl Transfer {
    /// Starts `copy`, which ends early if it is cancelled.
    pub(crate) fn start(
        copy: impl FnOnce(Cancellation, &mut dyn FnMut(Event)) -> Result<Summary, Error>
        + Send
        + 'static,
        mut observer: impl FnMut(&Event) + Send + 'static,
    ) -> Result<Self, Error> {
        let shared = Arc::<Shared>::default();
        let cancellation = Cancellation::default();
        let (told, work) = (Arc::clone(&shared), cancellation.clone());
        let run = move || {
            let mut observe = |event: Event| {
                if let Event::Copy(CopyEvent::Moving(progress)) = &event {
                    told.state().progress = *progress;
                }
                observer(&event);
            };
            let result = caught("copy", || copy(work, &mut observe));
            told.end(result);
        };
        let thread = thread::Builder::new().name("copy".into());
        thread.spawn(run).map_err(Fault::Thread)?;
        Ok(Self {
            shared,
            cancellation,
        })
    }

    /// Returns the latest progress of the present attempt.
    pub fn progress(&self) -> CopyProgress {
        self.shared.state().progress
    }

    /// Returns true if the copy has ended, so that [`Transfer::wait`] returns at once.
    pub fn is_finished(&self) -> bool {
        self.shared.state().result.is_some()
    }

    /// Cancels the copy, and no other. It ends with [`Code::Interrupted`] within a second, or while it connects, within
    /// the time limit of that. Files are complete or not there, and what has arrived of the others is kept for the next
    /// copy of the same files.
    ///
    /// [`Code::Interrupted`]: crate::Code::Interrupted
    pub fn cancel(&self) {
        self.cancellation.cancel();
    }

    /// Waits until the copy has ended. Entries that cannot be copied are failures in the summary, not an error.
    pub fn wait(self) -> Result<Summary, Error> {
        let mut state = self.shared.state();
        loop {
            if let Some(result) = state.result.clone() {
                return result;
            }
            let woken = self.shared.ended.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits like [`Transfer::wait`], for `timeout` at most. Returns none if the copy has not ended by then.
    pub fn wait_for(&self, timeout: Duration) -> Option<Result<Summary, Error>> {
        let state = self.shared.state();
        let is_running = |state: &mut State| state.result.is_none();
        let waited = self
            .shared
            .ended
            .wait_timeout_while(state, timeout, is_running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.result.clone()
    }
}

impl Future for Transfer {
    type Output = Result<Summary, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        pin!(&*self).poll(context)
    }
}

impl Future for &Transfer {
    type Output = Result<Summary, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.state();
        if let Some(result) = state.result.clone() {
            return Poll::Ready(result);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Debug for Transfer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = self.shared.state();
        f.debug_struct("Transfer")
            .field("progress", &state.progress)
            .field("result", &state.result)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the result, and wakes the threads that wait for it.
    fn end(&self, result: Result<Summary, Error>) {
        let mut state = self.state();
        if let Ok(summary) = &result {
            state.progress = summary.motion;
        }
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        self.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
