//! Upload of one object whose bytes come from a network in any order.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use lighthaul_base::Size;
use lighthaul_buckets::attributes::{Condition, HeldPart};
use lighthaul_buckets::call_error::CallError;
use lighthaul_buckets::checksum;
use lighthaul_buckets::store::{Bucket, Upload};
use lighthaul_copy::object_target::{ObjectUpload, Published};
use lighthaul_files::digest::Digest;
use lighthaul_files::object::Span;
use lighthaul_session::error::{Code, Error};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use crate::stores::job::{self, PART, part_len};
use crate::stores::part_upload::may_continue;
use crate::stores::serving::client_errors::{of_request, unwritten};
use crate::stores::serving::completion::{
    checked, complete, gathered, may_check, published, unpublished,
};
use crate::stores::serving::earlier_upload::{EarlierUpload, Parts, is_same};
use crate::stores::serving::open_parts::WholePart;
use crate::stores::serving::served_bucket::{ServedBucket, name};
use crate::stores::serving::shared_parts::SharedParts;
use crate::stores::serving::spool::{Slot, Spool};
use crate::stores::serving::upload_target::Target;
use lighthaul_buckets::upload_record::UploadRecord;

/// Upload of one object. An object of one part is sent when it is published, in one request.
#[derive(Debug)]
pub(crate) struct BucketUpload {
    shared: Arc<ServedBucket>,
    target: Arc<Target>,
    /// Number among all uploads of the daemon.
    number: u64,
    spool: Arc<Spool>,
    parts: SharedParts<Arc<Slot>>,
    state: Mutex<State>,
    /// Failure of a part, after which no more are sent.
    broken: Arc<OnceLock<CallError>>,
}

/// Requests of an upload.
#[derive(Debug, Default)]
struct State {
    /// Upload in parts, once it has begun.
    upload: Option<Upload>,
    sent: BTreeMap<u64, JoinHandle<Result<HeldPart, CallError>>>,
    /// Parts that the store has from an earlier copy.
    held: Parts,
    /// Record by which a later copy continues.
    record: Option<UploadRecord>,
    /// The only part of a small object, once it is complete.
    only: Option<Whole>,
    done: Option<Result<Publishing, Error>>,
}

type Whole = WholePart<Arc<Slot>>;
type Publishing = JoinHandle<Result<Published, CallError>>;

impl BucketUpload {
    pub(crate) fn new(shared: &Arc<ServedBucket>, target: Target) -> Result<Self, Error> {
        if target.size > shared.bucket.size_max() {
            let why = job::too_large(target.size, shared.bucket.size_max());
            return Err(unwritten(&target.path, why, Code::Io));
        }
        let len = part_len(target.size);
        if len.min(target.size) > shared.space.max() {
            let why = format!(
                "its parts have {}, more than the spool of the daemon ({}); raise --spool-max there",
                Size(len),
                Size(shared.space.max())
            );
            return Err(unwritten(&target.path, why, Code::Io));
        }
        let spool = shared.spool(len);
        let spool = spool.map_err(|error| unwritten(&target.path, spooled(&error), Code::Io))?;
        let earlier = if target.size > PART {
            EarlierUpload::find(shared, &target, len)
        } else {
            Ok(EarlierUpload::default())
        };
        let earlier = earlier.map_err(|error| {
            let url = shared.bucket.url(&target.key);
            of_request(&error, ("cannot write", &target.path), &url)
        })?;
        let state = State {
            upload: earlier.upload,
            held: earlier.parts,
            record: earlier.record,
            ..State::default()
        };
        Ok(Self {
            parts: SharedParts::new(target.size, len),
            shared: Arc::clone(shared),
            target: Arc::new(target),
            number: shared.space.next_upload(),
            spool,
            state: Mutex::new(state),
            broken: Arc::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: &CallError) -> Error {
        let url = self.shared.bucket.url(&self.target.key);
        of_request(error, ("cannot write", &self.target.path), &url)
    }

    /// Returns the error of this upload for a reason of this host.
    fn unwritten(&self, why: impl Into<String>, code: Code) -> Error {
        unwritten(&self.target.path, why, code)
    }

    /// Returns the slot of a part of `len` bytes. Waits until there is space for it.
    fn slot(&self, number: u64, len: u64) -> Result<Arc<Slot>, Error> {
        let take = || {
            let space = self.shared.space.take(self.number, len);
            space.map(|space| Arc::new(self.spool.slot(space)))
        };
        let full = || {
            let why = format!(
                "the spool of the daemon is full ({}); copy again later, or raise --spool-max there",
                Size(self.shared.space.max())
            );
            self.unwritten(why, Code::Io)
        };
        let slot = self.parts.slot(number, || take().ok_or_else(full))?;
        slot.ok_or_else(|| self.unwritten("another part of it has failed", Code::Io))
    }

    /// Frees what this upload has in the spool, since it has failed.
    fn give_up_parts(&self) {
        self.parts.close();
        self.state().only = None;
    }

    /// Reads a complete part from the spool, and frees its slot. Waits until there is room in memory.
    fn take(&self, part: Whole) -> Result<(Bytes, OwnedSemaphorePermit), Error> {
        let leaving = self.shared.space.leaving();
        let room = self.shared.room(part.len);
        drop(leaving);
        let room = room.map_err(|error| self.failed(&error))?;
        let read = part.slot.read(part.len);
        drop(part.slot);
        let bytes = read.map_err(|error| self.unwritten(spooled(&error), Code::Io))?;
        // the bytes that came from the network had this checksum
        if checksum::of(&bytes) != part.crc {
            let text = "its bytes have changed on the way through this host";
            return Err(self.unwritten(text, Code::Integrity));
        }
        Ok((bytes.into(), room))
    }

    /// Sends a part of a large object.
    fn send(&self, part: Whole) -> Result<(), Error> {
        let number = part.number;
        let (bytes, room) = self.take(part)?;
        let sends = self.shared.uploads.send();
        let sends = sends.map_err(|error| self.failed(&error))?;
        let mut state = self.state();
        let State {
            upload,
            sent,
            record,
            ..
        } = &mut *state;
        let upload = match upload {
            Some(upload) => upload,
            none => {
                let begun = self.shared.begin(&self.target.key, self.target.stamp);
                let begun = begun.map_err(|error| self.failed(&error))?;
                if let (Some(record), Some(id)) = (record, name(&begun)) {
                    record.note(id);
                }
                none.insert(begun)
            }
        };
        let nth = u32::try_from(number + 1).unwrap_or(u32::MAX);
        let send = self
            .shared
            .bucket
            .send_part(&self.target.key, upload, (nth, bytes));
        let broken = Arc::clone(&self.broken);
        let task = self.shared.spawn(async move {
            let sent = send.await;
            if let Err(error) = &sent {
                broken.set(error.clone()).ok();
            }
            drop((room, sends));
            sent
        });
        sent.insert(number, task);
        Ok(())
    }

    /// Takes bytes, all of one part.
    fn write_part(&self, number: u64, (at, bytes): (u64, &[u8])) -> Result<(), Error> {
        let from = number * part_len(self.target.size);
        let (_, end) = self.parts.lock().at(at);
        let slot = self.slot(number, end - from)?;
        let written = slot.write(bytes, at - from);
        drop(slot);
        written.map_err(|error| self.unwritten(spooled(&error), Code::Io))?;
        let crc = checksum::of(bytes);
        let whole = self.parts.lock().add(at, bytes.len() as u64, crc);
        match whole {
            Some(part) if self.target.size <= PART => self.state().only = Some(part),
            Some(part) => self.send(part)?,
            None => {}
        }
        Ok(())
    }
}

impl ObjectUpload for BucketUpload {
    fn held(&self) -> Vec<Span> {
        let len = part_len(self.target.size);
        let held = &self.state().held;
        let spans = held.keys().map(|number| (number * len, (number + 1) * len));
        let spans = spans.map(|(from, till)| (from, till.min(self.target.size)));
        spans.collect()
    }

    fn keep(&self, part: Span, source: &[(Span, Digest)]) -> bool {
        let number = part.0 / part_len(self.target.size);
        let mut state = self.state();
        let crc = state.held.get(&number).and_then(|part| part.crc);
        let is_same = is_same(part, source, crc);
        if !is_same {
            state.held.remove(&number);
        }
        is_same
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if let Some(error) = self.broken.get() {
            self.give_up_parts();
            return Err(self.failed(error));
        }
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (number, end) = self.parts.lock().at(at);
            let len = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
            if len == 0 {
                let text = "the source sends more bytes than it announced";
                return Err(self.unwritten(text, Code::Protocol));
            }
            let (now, later) = rest.split_at(len.min(rest.len()));
            self.write_part(number, (at, now))
                .inspect_err(|_| self.give_up_parts())?;
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn publish(&self) {
        let only = self.state().only.take();
        let done = match (self.target.size, only) {
            (0, _) => Ok(self.put(Bytes::new(), None)),
            (_, Some(part)) => self
                .take(part)
                .map(|(bytes, room)| self.put(bytes, Some(room))),
            (_, None) => Ok(self.complete()),
        };
        self.state().done = Some(done);
    }

    fn finish(&self) -> Result<Published, Error> {
        let done = self.state().done.take();
        let done = match done {
            Some(done) => {
                let done = done?;
                // the store frees space as soon as it answers
                let _leaving = self.shared.space.leaving();
                self.shared
                    .wait(async { done.await.map_err(|_| unpublished())? })
            }
            None => Err(unpublished()),
        };
        done.map_err(|error| self.failed(&error))
    }
}

impl BucketUpload {
    /// Sends a small object.
    fn put(&self, bytes: Bytes, room: Option<OwnedSemaphorePermit>) -> Publishing {
        let (bucket, target) = self.own();
        self.shared.spawn(async move {
            let write = |condition: Condition| {
                let (bucket, target, bytes) = (&bucket, &target, bytes.clone());
                async move {
                    let how = (Some(target.stamp), &condition);
                    bucket.write(&target.key, bytes, how).await
                }
            };
            let mut written = write(target.condition.clone()).await;
            if may_check(&target, &written) {
                written = match checked(&bucket, &target).await {
                    Ok(()) => write(Condition::Always).await,
                    Err(error) => Err(error),
                };
            }
            drop(room);
            published(&bucket, &target, written).await
        })
    }

    /// Completes an object of several parts.
    fn complete(&self) -> Publishing {
        let (bucket, target) = self.own();
        let State {
            upload,
            sent,
            held,
            record,
            ..
        } = std::mem::take(&mut *self.state());
        let uploads = Arc::clone(&self.shared.uploads);
        self.shared.spawn(async move {
            let mut upload = upload.ok_or_else(unpublished)?;
            let made = match gathered(&target, sent, held).await {
                Ok((parts, whole)) => {
                    complete((&bucket, &target), &mut upload, (&parts, whole)).await
                }
                Err(error) => Err(error),
            };
            if let (Err(error), Some(_)) = (&made, &record)
                && may_continue(error)
            {
                return Err(error.clone());
            }
            let is_over = made.is_ok() || bucket.abort(&target.key, &mut upload).await.is_ok();
            if let Some(id) = name(&upload).filter(|_| is_over) {
                uploads.remove(id);
                remove(record);
            }
            published(&bucket, &target, made).await
        })
    }

    /// Returns the bucket and the object for a task, which must not hold the runtime that it runs on.
    fn own(&self) -> (Bucket, Arc<Target>) {
        (self.shared.bucket.clone(), Arc::clone(&self.target))
    }
}

impl Drop for BucketUpload {
    fn drop(&mut self) {
        self.give_up_parts();
        let State {
            upload,
            sent,
            record,
            ..
        } = std::mem::take(&mut *self.state());
        let Some(upload) = upload else {
            // nothing was begun, so that nothing can continue
            remove(record);
            return;
        };
        let requests = sent.into_values();
        match record {
            Some(record) if self.broken.get().is_none_or(may_continue) => {
                self.shared.keep(record, requests);
            }
            record => {
                remove(record);
                self.shared.give_up(&self.target.key, upload, requests);
            }
        }
    }
}

/// Removes the record of an upload, so that no later copy continues.
fn remove(record: Option<UploadRecord>) {
    if let Some(record) = record {
        record.remove();
    }
}

/// Returns the reason of a failure of the spool.
fn spooled(error: &io::Error) -> String {
    let text = error.to_string();
    let why = text.split(" (os error").next().unwrap_or(&text);
    format!(
        "the spool directory of the daemon failed: {}",
        why.to_lowercase()
    )
}
