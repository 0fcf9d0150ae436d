//! Upload of one object in parts. None is left open in the store without a reason.
//!
//! ```text
//! record of an earlier run --> parts that the store has --.
//! begin ------------------------------------------------> parts that are sent --> complete
//!                                                                              `-> left to a later run, or given up
//! ```
//!
//! An upload with a record stays in the store when its copy ends early: the same command continues it. Without a record,
//! it is given up, also when the copy is cancelled.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use lighthaul_buckets::attributes::{Completion, HeldPart, Stamp};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::store::{Bucket, Upload};
use lighthaul_remote::paths;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinError, JoinSet};

use crate::stores::job::Job;
use lighthaul_buckets::left_uploads::{OpenUpload, give_up};
use lighthaul_buckets::upload_record::UploadRecord;

/// Upload that is in work.
#[derive(Debug)]
pub(crate) struct PartUpload {
    job: Arc<Job>,
    bucket: Bucket,
    key: String,
    /// None once it has ended.
    upload: Option<Upload>,
    record: Option<UploadRecord>,
    /// Parts of an earlier run, by number.
    earlier: BTreeMap<u32, HeldPart>,
    /// Parts that are being sent.
    tasks: JoinSet<Result<HeldPart, CallError>>,
    /// Parts that the store has, by number.
    parts: BTreeMap<u32, HeldPart>,
    _open: OpenUpload,
}

/// Object that is uploaded.
#[derive(Clone, Debug)]
pub(crate) struct PartTarget {
    pub(crate) bucket: Bucket,
    pub(crate) key: String,
    /// Modification time of the source.
    pub(crate) stamp: Option<Stamp>,
    /// Line that names the version of the source, and the length of parts.
    pub(crate) version: String,
}

impl PartUpload {
    /// Continues the upload of an earlier run of the same source, or begins one.
    pub(crate) async fn open(job: &Arc<Job>, target: PartTarget) -> Result<Self, CallError> {
        let (own, open) = (Arc::clone(job), job.uploads.open());
        // its name must become known, also if the copy is cancelled meanwhile
        let begun = tokio::spawn(Self::begin(own, target, open)).await;
        begun.unwrap_or_else(|error| Err(interrupted(error)))
    }

    async fn begin(job: Arc<Job>, target: PartTarget, open: OpenUpload) -> Result<Self, CallError> {
        let PartTarget {
            bucket,
            key,
            stamp,
            version,
        } = target;
        let mut record = if bucket.resumes_uploads() {
            UploadRecord::open(&paths::uploads(), &bucket.url(&key), &version).ok()
        } else {
            None
        };
        let earlier = record.as_mut().and_then(|record| record.earlier.take());
        let mut found = None;
        if let Some((id, is_same)) = earlier {
            let held = if is_same {
                match bucket.parts(&key, &id).await {
                    // a key may write parts and not list them
                    Err(error) if !may_continue(&error) => None,
                    held => Some(held?),
                }
            } else {
                None
            };
            match held {
                // the store knows the upload no more
                Some(None) => {}
                Some(Some(held)) => found = Some((Upload::S3(id), held)),
                None => {
                    give_up(&bucket, &key, &mut Upload::S3(id)).await;
                }
            }
        }
        let (upload, held) = match found {
            Some(found) => found,
            None => (bucket.begin(&key, stamp).await?, Vec::new()),
        };
        if let (Some(record), Upload::S3(id)) = (&mut record, &upload) {
            record.note(id);
        }
        Ok(Self {
            job,
            bucket,
            key,
            upload: Some(upload),
            record,
            earlier: held.into_iter().map(|part| (part.number, part)).collect(),
            tasks: JoinSet::new(),
            parts: BTreeMap::new(),
            _open: open,
        })
    }

    /// Returns a part of `len` bytes that an earlier run has sent, and its checksum.
    pub(crate) fn earlier(&self, number: u32, len: u64) -> Option<u64> {
        let part = self.earlier.get(&number)?;
        part.crc.filter(|_| part.size == len)
    }

    /// Keeps a part that an earlier run has sent.
    pub(crate) fn keep(&mut self, number: u32) {
        if let Some(part) = self.earlier.remove(&number) {
            self.job.report.held(part.size);
            self.parts.insert(number, part);
        }
    }

    /// Sends the next part, for which there is room in memory. Fails if an earlier one has failed.
    pub(crate) fn send(
        &mut self,
        (number, bytes): (u32, Bytes),
        room: OwnedSemaphorePermit,
    ) -> Result<(), CallError> {
        let upload = self.upload.as_mut().ok_or_else(over)?;
        let sent = self.bucket.send_part(&self.key, upload, (number, bytes));
        let job = Arc::clone(&self.job);
        self.tasks.spawn(async move {
            let part = sent.await?;
            job.report.moved(part.size);
            drop(room);
            Ok(part)
        });
        while let Some(ended) = self.tasks.try_join_next() {
            self.take(ended)?;
        }
        Ok(())
    }

    /// Waits for the parts that are being sent. Returns all parts in order.
    pub(crate) async fn sent(&mut self) -> Result<Vec<HeldPart>, CallError> {
        while let Some(ended) = self.tasks.join_next().await {
            self.take(ended)?;
        }
        Ok(std::mem::take(&mut self.parts).into_values().collect())
    }

    fn take(
        &mut self,
        ended: Result<Result<HeldPart, CallError>, JoinError>,
    ) -> Result<(), CallError> {
        let part = ended.unwrap_or_else(|error| Err(interrupted(error)))?;
        self.parts.insert(part.number, part);
        Ok(())
    }

    /// Completes the object. Returns true if the store reports an equal checksum.
    pub(crate) async fn complete(
        &mut self,
        parts: &[HeldPart],
        whole: Completion<'_>,
    ) -> Result<bool, CallError> {
        let upload = self.upload.as_mut().ok_or_else(over)?;
        let made = self.bucket.complete((&self.key, upload), parts, whole);
        let is_proven = made.await?;
        self.upload = None;
        self.forget();
        Ok(is_proven)
    }

    /// Leaves the upload to a later run, or gives it up if none can continue it.
    pub(crate) async fn leave(mut self) {
        self.tasks.shutdown().await;
        if self.record.is_none() {
            self.give_up().await;
        }
    }

    /// Gives up the upload. It keeps its record if the store does not end it, so that it is not forgotten.
    pub(crate) async fn give_up(mut self) {
        self.tasks.shutdown().await;
        let is_over = match &mut self.upload {
            Some(upload) => give_up(&self.bucket, &self.key, upload).await,
            None => true,
        };
        // the end of the copy takes over if this is cancelled before
        self.upload = None;
        if is_over {
            self.forget();
        }
    }

    /// Removes the record, so that no later run continues.
    fn forget(&mut self) {
        if let Some(record) = self.record.take() {
            record.remove();
        }
    }
}

impl Drop for PartUpload {
    /// Leaves an upload without a record to the end of the copy, which gives it up.
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take()
            && self.record.is_none()
        {
            let key = std::mem::take(&mut self.key);
            self.job.uploads.leave(self.bucket.clone(), key, upload);
        }
    }
}

/// Returns true if a later run can continue an upload that failed for this reason.
pub(crate) fn may_continue(error: &CallError) -> bool {
    error.is_passing() || matches!(error.reason, Reason::Stopped | Reason::Expired)
}

/// Passes the panic of a task on, or returns the error of one that was cancelled.
fn interrupted(error: JoinError) -> CallError {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => CallError::new(Reason::Broken, "it was interrupted"),
    }
}

fn over() -> CallError {
    CallError::new(Reason::Broken, "the upload has ended")
}
