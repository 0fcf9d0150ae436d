//! A copy with its limits: what its tasks share.

use std::sync::{Arc, Mutex, PoisonError};

use lighthaul_base::Size;
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::client::Patience;
use lighthaul_buckets::store::Bucket;
use lighthaul_files::list::PathList;
use lighthaul_files::naming::Naming;
use lighthaul_files::options::Options;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, spawn_blocking};

use crate::fault::Fault;
use crate::stores::places;
use crate::stores::report::Report;
use lighthaul_buckets::left_uploads::LeftUploads;
use lighthaul_buckets::name_set::NameSet;

/// Copy to make.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) sources: Vec<Place>,
    pub(crate) target: Place,
    /// True if the target is the new name of the only source.
    pub(crate) exact: bool,
    pub(crate) options: Options,
    pub(crate) patience: Patience,
    pub(crate) report: Report,
    /// Cancellation of the thread that made the job.
    cancellation: Cancellation,
    /// Uploads in parts that are in work.
    pub(crate) uploads: Arc<LeftUploads>,
    /// List of paths to copy, until it is read.
    list: Mutex<Option<PathList>>,
    /// Room for bytes in memory, in KiB.
    memory: Arc<Semaphore>,
    /// Room for files that are copied at a time.
    files: Arc<Semaphore>,
}

impl Job {
    pub(crate) fn new(
        (sources, target, exact): (&[Place], &Place, bool),
        options: &Options,
        list: Option<PathList>,
        (patience, report): (Patience, Report),
    ) -> Self {
        Self {
            sources: sources.to_vec(),
            target: target.clone(),
            exact,
            options: options.clone(),
            patience,
            report,
            cancellation: Cancellation::current(),
            uploads: Arc::default(),
            list: Mutex::new(list),
            memory: Arc::new(Semaphore::new(MEMORY_KIB as usize)),
            files: Arc::new(Semaphore::new(FILES_MAX)),
        }
    }

    /// Opens the bucket of a place, and returns the key in it. Ends early if the copy is cancelled.
    pub(crate) fn open(&self, place: &Place) -> Result<(Bucket, String), Error> {
        let cancellation = self.cancellation.clone();
        cancellation.cover(|| places::open(place, self.patience))
    }

    /// Waits for room for bytes in memory. A part that is larger than all of it gets all.
    pub(crate) async fn room(&self, bytes: u64) -> Result<OwnedSemaphorePermit, CallError> {
        let wanted = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let wanted = wanted.clamp(1, MEMORY_KIB);
        let room = Arc::clone(&self.memory).acquire_many_owned(wanted).await;
        room.map_err(|_| CallError::new(Reason::Broken, "the copy has ended"))
    }

    /// Waits until another file may be copied, and takes the ends of earlier ones.
    pub(crate) async fn turn(&self, tasks: &mut JoinSet<()>) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.files).acquire_owned().await.ok();
        while let Some(ended) = tasks.try_join_next() {
            passed_on(ended);
        }
        turn
    }

    /// Takes the list of paths to copy, if not all are wanted.
    pub(crate) fn take_list(&self) -> Option<PathList> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.take()
    }

    /// Refuses to delete entries that several sources do not have.
    pub(crate) fn check_deletion(&self, naming: Naming) -> Result<(), Error> {
        if self.options.delete && naming == Naming::Several {
            let text = "--delete needs one source: give one directory";
            return Err(Fault::Request(text.to_owned()).into());
        }
        Ok(())
    }

    /// Returns true if the target is a directory by its notation.
    pub(crate) fn is_inside(&self) -> bool {
        let path = self.target.path();
        self.sources.len() > 1 || path.is_empty() || path.ends_with(b"/")
    }
}

/// Names of a copy that were handled: a list may name an object twice.
#[derive(Debug, Default)]
pub(crate) struct Seen(NameSet);

impl Seen {
    /// Returns true if a name of a list comes for the first time. Other names come once.
    pub(crate) fn is_new(&mut self, job: &Job, name: &str) -> bool {
        !job.options.listed || self.0.add(name)
    }
}

/// Waits for all tasks.
pub(crate) async fn join(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        passed_on(ended);
    }
}

/// Passes the panic of a task on.
fn passed_on(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// Runs work on files on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => {
                Err(CallError::new(Reason::Broken, "it was interrupted").during("cannot copy"))
            }
        },
    }
}

/// Returns the size of the parts of a large object: at most 10,000 have to do.
pub(crate) fn part_len(size: u64) -> u64 {
    let least = size.div_ceil(PARTS_MAX).next_multiple_of(1 << 20);
    least.max(PART)
}

/// Returns the reason why a file of `size` bytes cannot be an object of at most `max` bytes.
pub(crate) fn too_large(size: u64, max: u64) -> String {
    format!(
        "it has {}, and an object of this store at most {}; split it",
        Size(size),
        Size(max)
    )
}

/// Size of parts, and of the largest object that is copied in one request.
pub(crate) const PART: u64 = 8 << 20;
/// Maximum number of parts of an object in S3.
const PARTS_MAX: u64 = 10_000;
/// Bytes in memory for all files, in KiB.
const MEMORY_KIB: u32 = 64 << 10;
/// Maximum number of files that are copied at a time.
const FILES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_object_has_no_more_than_10_000_parts() {
        for size in [0, 1, PART, PART * PARTS_MAX, PART * PARTS_MAX + 1, 5 << 40] {
            let len = part_len(size);
            assert!(size.div_ceil(len) <= PARTS_MAX && len >= PART, "{size}");
        }
        assert_eq!(part_len(1 << 30), PART);
    }
}
