//! Work that goes on at the same time.

use std::thread;

use crate::error::Result;

/// Does each of `works` on a thread of its own, and answers what came of them when all have ended.
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
