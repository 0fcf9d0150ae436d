//! Parallel work.

use std::thread;

use crate::error::Result;

/// Runs each of `works` on a thread of its own. Returns their results when all have ended, or the
/// first error.
pub(crate) fn together<T: Send, W: FnOnce() -> Result<T> + Send>(
    works: impl IntoIterator<Item = W>,
) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let mut runs = Vec::new();
        for work in works {
            runs.push(scope.spawn(work));
        }
        let ended = runs.into_iter().map(|run| {
            let outcome = run.join();
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect()
    })
}
