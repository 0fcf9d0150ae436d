//! A bucket that a daemon serves: its client, and the memory and files that all copies to and from it share.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{StreamExt, stream};
use lighthaul_buckets::attributes::{HeldPart, Stamp};
use lighthaul_buckets::call_error::CallError;
use lighthaul_buckets::store::{Bucket, Upload};
use lighthaul_remote::paths;
use lighthaul_session::error::Error;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::spool_space::{SpoolPlace, SpoolSpace};
use crate::stores::run::runtime;
use crate::stores::serving::completion::end_of;
use crate::stores::serving::kept_uploads::KeptUploads;
use crate::stores::serving::open_uploads::{OpenUploads, ended};
use crate::stores::serving::spool::Spool;
use lighthaul_buckets::upload_record::UploadRecord;

/// Bucket, with the memory and the files that all uploads to it share.
#[derive(Debug)]
pub(crate) struct ServedBucket {
    pub(crate) bucket: Bucket,
    runtime: Runtime,
    /// True once the daemon ends.
    ends: watch::Sender<bool>,
    pub(crate) uploads: Arc<OpenUploads>,
    /// Uploads of interrupted copies.
    pub(crate) kept: KeptUploads,
    /// Room for complete parts in memory, in KiB.
    memory: Arc<Semaphore>,
    /// Room for blocks in memory that are read ahead, in KiB.
    ahead: Arc<Semaphore>,
    /// Space of incomplete parts on disk.
    pub(crate) space: Arc<SpoolSpace>,
    spool_folder: PathBuf,
    /// Spools, by the length of their slots.
    spools: Mutex<BTreeMap<u64, Arc<Spool>>>,
}

impl ServedBucket {
    /// Creates the uploads to a bucket, with the place of their incomplete parts.
    pub(crate) fn new(bucket: Bucket, spool: &SpoolPlace) -> Result<Self, Error> {
        let kept = KeptUploads::new(paths::served_uploads(), spool.upload_keep);
        let runtime = runtime()?;
        runtime.spawn(kept.clone().sweep(bucket.clone()));
        Ok(Self {
            bucket,
            runtime,
            kept,
            ends: watch::Sender::new(false),
            uploads: Arc::default(),
            memory: Arc::new(Semaphore::new(MEMORY_KIB as usize)),
            ahead: Arc::new(Semaphore::new(AHEAD_KIB as usize)),
            space: Arc::clone(&spool.space),
            spool_folder: spool.folder.clone(),
            spools: Mutex::default(),
        })
    }

    /// Waits for room for bytes in memory. A part that is larger than all of it gets all.
    pub(crate) fn room(&self, bytes: u64) -> Result<OwnedSemaphorePermit, CallError> {
        let wanted = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let wanted = wanted.clamp(1, MEMORY_KIB);
        let room = Arc::clone(&self.memory).acquire_many_owned(wanted);
        self.wait(async { room.await.map_err(|_| ended()) })
    }

    /// Returns room for a block that is read ahead, if there is any now.
    pub(crate) fn free_room(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let wanted = u32::try_from(bytes.div_ceil(1024)).ok()?;
        Arc::clone(&self.ahead).try_acquire_many_owned(wanted).ok()
    }

    /// Waits for the end of requests, or of the daemon.
    pub(crate) fn wait<T>(
        &self,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        self.run(work)?
    }

    /// Waits for the end of work. Fails if the daemon ends before.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, CallError> {
        self.runtime.block_on(until(self.ends.subscribe(), work))
    }

    /// Runs requests, until the daemon ends.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, CallError>> + Send + 'static,
    ) -> JoinHandle<Result<T, CallError>> {
        let work = until(self.ends.subscribe(), work);
        self.runtime.spawn(async { work.await? })
    }

    /// Begins an upload in parts.
    pub(crate) fn begin(&self, key: &str, stamp: Stamp) -> Result<Upload, CallError> {
        self.uploads.begin()?;
        let (bucket, key) = (self.bucket.clone(), key.to_owned());
        let uploads = Arc::clone(&self.uploads);
        // its name must become known, also if the daemon ends meanwhile
        let task = self.runtime.spawn(async move {
            let begun = bucket.begin(&key, Some(stamp)).await;
            uploads.begun(&key, begun.as_ref().ok().and_then(name));
            begun
        });
        self.wait(async { task.await.map_err(|_| ended())? })
    }

    /// Keeps an upload in parts for a later copy. Its record is free after the end of its requests.
    pub(crate) fn keep(
        &self,
        record: UploadRecord,
        requests: impl IntoIterator<Item = JoinHandle<Result<HeldPart, CallError>>>,
    ) {
        let requests: Vec<_> = requests.into_iter().collect();
        self.runtime.spawn(async move {
            for request in requests {
                end_of(request).await;
            }
            drop(record);
        });
    }

    /// Gives up an upload in parts, after the end of its requests.
    pub(crate) fn give_up(
        &self,
        key: &str,
        mut upload: Upload,
        requests: impl IntoIterator<Item = JoinHandle<Result<HeldPart, CallError>>>,
    ) {
        let (bucket, key) = (self.bucket.clone(), key.to_owned());
        let uploads = Arc::clone(&self.uploads);
        let requests: Vec<_> = requests.into_iter().collect();
        self.runtime.spawn(async move {
            for request in requests {
                end_of(request).await;
            }
            if bucket.abort(&key, &mut upload).await.is_ok()
                && let Some(id) = name(&upload)
            {
                uploads.remove(id);
            }
        });
    }

    /// Ends all requests within this time. Gives up all uploads that are open, unless interrupted ones are kept.
    pub(crate) fn close(&self, limit: Duration) {
        self.uploads.end();
        let all = async {
            // a part that arrives after the end of its upload could stay in the store
            let sent = async {
                while self.uploads.sends() {
                    sleep(LOOK).await;
                }
            };
            timeout(limit / 4, sent).await.ok();
            self.ends.send_replace(true);
            if self.kept.folder().is_some() {
                return;
            }
            loop {
                let (open, others) = self.uploads.open();
                let is_over = open.is_empty() && !others;
                let aborts = open.into_iter().map(|(id, key)| async move {
                    let mut upload = Upload::S3(id.clone());
                    self.bucket.abort(&key, &mut upload).await.ok();
                    // requests that were cut off may have added a part meanwhile
                    if let Ok(None) = self.bucket.parts(&key, &id).await {
                        self.uploads.remove(&id);
                    }
                });
                let mut aborts = stream::iter(aborts).buffer_unordered(ABORTS_MAX);
                while aborts.next().await.is_some() {}
                if is_over {
                    return;
                }
                sleep(LOOK).await;
            }
        };
        let closed = self.runtime.block_on(async { timeout(limit, all).await });
        if closed.is_err() {
            let (left, _) = self.uploads.open();
            tracing::warn!(
                "{} uploads to {} stay in the store: a lifecycle rule can remove them",
                left.len(),
                self.bucket.name
            );
        }
    }

    /// Returns the spool for parts of `len` bytes.
    pub(crate) fn spool(&self, len: u64) -> io::Result<Arc<Spool>> {
        // parts of few lengths need few files
        let len = len.next_power_of_two();
        let mut spools = self.spools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spool) = spools.get(&len) {
            return Ok(Arc::clone(spool));
        }
        let spool = Arc::new(Spool::create(&self.spool_folder, len)?);
        spools.insert(len, Arc::clone(&spool));
        Ok(spool)
    }
}

/// Returns the result of work, or an error if the daemon ends before.
async fn until<T>(
    mut ends: watch::Receiver<bool>,
    work: impl Future<Output = T>,
) -> Result<T, CallError> {
    let end = ends.wait_for(|has_ended| *has_ended);
    match select(pin!(work), pin!(end)).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right(_) => Err(ended()),
    }
}

/// Returns the name of an upload in S3.
pub(crate) fn name(upload: &Upload) -> Option<&str> {
    match upload {
        Upload::S3(id) => Some(id),
        Upload::Cloud(_) => None,
    }
}

/// Uploads that are given up at a time.
const ABORTS_MAX: usize = 16;
/// Interval at which uploads are looked for that have just begun.
const LOOK: Duration = Duration::from_millis(20);
/// Complete parts in memory, of all copies to a bucket, in KiB.
const MEMORY_KIB: u32 = 128 << 10;
/// Blocks that are read ahead, of all copies from a bucket, in KiB.
const AHEAD_KIB: u32 = 128 << 10;
