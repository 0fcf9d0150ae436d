//! File of the queue, and its faults.

use std::path::PathBuf;

use lighthaul_grammar::jobs::QueueArgs;
use lighthaul_queue::Queue;
use lighthaul_remote::paths;
use lighthaul_session::error::Error;

use crate::error::Fault;

/// Opens a queue that exists.
pub(super) fn existing(args: &QueueArgs) -> Result<Queue, Error> {
    Queue::existing(&file(args)).map_err(failed)
}

/// Returns the file of the queue.
pub(super) fn file(args: &QueueArgs) -> PathBuf {
    args.queue.clone().unwrap_or_else(paths::jobs)
}

/// Returns the error of a queue's fault.
pub(super) fn failed(fault: lighthaul_queue::Error) -> Error {
    Fault::Queue(fault).into()
}
