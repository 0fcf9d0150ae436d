//! A copy in a thread of its own: its progress, its end, and its cancellation.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use lighthaul_copy::watch::{CopyEvent, CopyProgress, Summary};
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_session::error::Error;

use crate::event::Event;
use crate::task::Task;

/// Running copy. It is also a future, which needs no runtime: the thread of the copy wakes it.
///
/// The copy is cancelled when this value is dropped.
#[derive(Debug)]
#[must_use = "a transfer that is dropped is cancelled"]
pub struct Transfer {
    task: Task<Summary>,
    progress: Arc<Latest>,
}

/// Latest progress of the present attempt.
#[derive(Debug, Default)]
struct Latest(Mutex<CopyProgress>);

impl Latest {
    fn get(&self) -> MutexGuard<'_, CopyProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transfer {
    /// Starts `copy`, which ends early if it is cancelled.
    pub(crate) fn start(
        copy: impl FnOnce(Cancellation, &mut dyn FnMut(Event)) -> Result<Summary, Error>
        + Send
        + 'static,
        mut observer: impl FnMut(&Event) + Send + 'static,
    ) -> Result<Self, Error> {
        let progress = Arc::<Latest>::default();
        let told = Arc::clone(&progress);
        let task = Task::start("copy", move |cancellation| {
            let mut observe = |event: Event| {
                if let Event::Copy(CopyEvent::Moving(progress)) = &event {
                    *told.get() = *progress;
                }
                observer(&event);
            };
            let summary = copy(cancellation, &mut observe)?;
            *told.get() = summary.motion;
            Ok(summary)
        })?;
        Ok(Self { task, progress })
    }

    /// Returns the latest progress of the present attempt.
    pub fn progress(&self) -> CopyProgress {
        *self.progress.get()
    }

    /// Returns true if the copy has ended, so that [`Transfer::wait`] returns at once.
    pub fn is_finished(&self) -> bool {
        self.task.result().is_some()
    }

    /// Cancels the copy, and no other. It ends with [`Code::Interrupted`] within a second, or while it connects, within
    /// the time limit of that. Files are complete or not there, and what has arrived of the others is kept for the next
    /// copy of the same files.
    ///
    /// [`Code::Interrupted`]: crate::Code::Interrupted
    pub fn cancel(&self) {
        self.task.cancel();
    }

    /// Waits until the copy has ended. Entries that cannot be copied are failures in the summary, not an error.
    pub fn wait(self) -> Result<Summary, Error> {
        self.task.wait()
    }

    /// Waits like [`Transfer::wait`], for `timeout` at most. Returns none if the copy has not ended by then.
    pub fn wait_for(&self, timeout: Duration) -> Option<Result<Summary, Error>> {
        self.task.wait_for(timeout)
    }
}

impl Future for Transfer {
    type Output = Result<Summary, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll(context)
    }
}

impl Future for &Transfer {
    type Output = Result<Summary, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll(context)
    }
}
