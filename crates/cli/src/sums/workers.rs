//! Number of threads that read files.

use std::num::NonZeroUsize;

use lighthaul_grammar::sums::ThreadArgs;

/// Returns the number of threads: the requested one, or one for each processor.
pub(super) fn workers(crew: ThreadArgs) -> usize {
    crew.jobs
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get)
        .min(WORKERS_MAX)
}

/// Maximum number of threads; more do not read a disk faster.
const WORKERS_MAX: usize = 64;
