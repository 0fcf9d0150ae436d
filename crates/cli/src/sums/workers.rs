//! Number of threads that read files.

use std::num::NonZeroUsize;

use crate::grammar::sums::ThreadArgs;

/// Returns the number of threads: as many as asked for, or one for each processor.
pub(super) fn workers(crew: ThreadArgs) -> usize {
    crew.jobs
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get)
        .min(WORKERS_MAX)
}

/// No disk wants more readers.
const WORKERS_MAX: usize = 64;
