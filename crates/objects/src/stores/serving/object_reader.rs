//! Objects as sources of a copy: blocks that are requested in parallel, ahead of the lane that sends them.
//!
//! ```text
//! store --> blocks of 8 MiB, in parallel --> memory --> lane
//!       --> 1 MiB around a packet that was lost ------^
//! ```
//!
//! All requests name the version that was listed. So an object that changes fails, and two versions never mix.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use lighthaul_buckets::attributes::Attributes;
use lighthaul_buckets::body::Body;
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::checksum;
use lighthaul_buckets::range_reader::RangeReader;
use lighthaul_files::source_store::{SourceStore, StoredFile};
use lighthaul_fs::version::{Look, Version};
use lighthaul_session::error::{Code, Error};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use crate::fault::Fault;
use crate::stores::serving::client_errors::of_request;
use crate::stores::serving::known_objects::KnownObjects;
use crate::stores::serving::object_sums::{ObjectSums, Summed};
use crate::stores::serving::open_uploads::ended;
use crate::stores::serving::served_bucket::ServedBucket;

/// Objects below a prefix, as sources of one copy.
#[derive(Debug)]
pub(crate) struct ObjectSources {
    shared: Arc<ServedBucket>,
    prefix: String,
    /// Path of the prefix that clients see.
    top: PathBuf,
    known: Arc<KnownObjects>,
    sums: Arc<ObjectSums>,
    reach: Arc<Reach>,
}

/// Store that answers, or has not for several requests with all of their retries.
#[derive(Debug, Default)]
struct Reach(AtomicU32);

/// Object that is read by one thread.
#[derive(Debug)]
struct Reader {
    shared: Arc<ServedBucket>,
    key: String,
    /// Path that clients see.
    place: PathBuf,
    known: Attributes,
    sums: Arc<ObjectSums>,
    reach: Arc<Reach>,
    blocks: Mutex<Blocks>,
}

/// Blocks in memory, and those that are on their way.
#[derive(Debug, Default)]
struct Blocks {
    here: BTreeMap<u64, Block>,
    coming: BTreeMap<u64, Coming>,
    /// Last block in the object that was read.
    newest: Option<u64>,
    /// Offset and bytes around a packet that was sent again, after its block had left memory.
    spot: Option<(u64, Body)>,
    /// First failure. The rest of the object is not requested then.
    failed: Option<Error>,
}

type Coming = JoinHandle<Result<Block, CallError>>;

/// Bytes of a block, and their room in memory if they were read ahead.
#[derive(Debug)]
struct Block {
    bytes: Body,
    _room: Option<OwnedSemaphorePermit>,
}

impl ObjectSources {
    pub(crate) fn new(
        (shared, known): (&Arc<ServedBucket>, &Arc<KnownObjects>),
        prefix: &str,
        top: &Path,
    ) -> Self {
        Self {
            known: Arc::clone(known),
            shared: Arc::clone(shared),
            prefix: prefix.to_owned(),
            top: top.to_owned(),
            sums: Arc::default(),
            reach: Arc::default(),
        }
    }
}

impl ObjectSources {
    /// Reads the attributes of an object that was listed long ago.
    fn look(&self, key: &str) -> Result<Attributes, CallError> {
        let look = self.shared.bucket.attributes(key);
        let found = self.reach.judge(|| self.shared.wait(look))?;
        found.ok_or_else(|| CallError::new(Reason::Missing, "it is not there any more"))
    }
}

impl SourceStore for ObjectSources {
    fn open(&self, place: &Path) -> Result<Box<dyn StoredFile>, Error> {
        let below = place.strip_prefix(&self.top).ok().and_then(Path::to_str);
        let key = format!("{}{}", self.prefix, below.unwrap_or_default());
        let failed = |error: CallError| unread(&error, place, &self.shared.bucket.url(&key));
        let known = match self.known.get(&key) {
            Some(known) => known,
            None => self.look(&key).map_err(failed)?,
        };
        Ok(Box::new(Reader {
            shared: Arc::clone(&self.shared),
            known,
            place: place.to_owned(),
            key,
            sums: Arc::clone(&self.sums),
            reach: Arc::clone(&self.reach),
            blocks: Mutex::default(),
        }))
    }
}

impl Reach {
    /// Sends a request, unless several before it had no answer.
    fn judge<T>(&self, send: impl FnOnce() -> Result<T, CallError>) -> Result<T, CallError> {
        if self.0.load(Relaxed) >= FAILURES_MAX {
            let text = "the store has not answered earlier requests";
            return Err(CallError::new(Reason::Network, text));
        }
        let sent = send();
        match &sent {
            Err(error) if error.is_passing() => {
                self.0.fetch_add(1, Relaxed);
            }
            Ok(_) | Err(_) => self.0.store(0, Relaxed),
        }
        sent
    }
}

impl StoredFile for Reader {
    fn read_in(&self, buffer: &mut [u8], offset: u64, till: Option<u64>) -> Result<usize, Error> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &blocks.failed {
            return Err(error.clone());
        }
        let mut done = 0;
        while done < buffer.len() && offset + (done as u64) < self.known.size {
            let at = offset + done as u64;
            let found = self.bytes(&mut blocks, at, till);
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    blocks.failed = Some(error.clone());
                    return Err(error);
                }
            };
            let len = found.len().min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&found[..len]);
            done += len;
        }
        Ok(done)
    }

    fn version(&self) -> Version {
        version(&self.known)
    }
}

impl Reader {
    /// Returns bytes from `at` on, at least one. The lane reads up to `till` in order, or has read them before.
    fn bytes<'a>(
        &self,
        blocks: &'a mut Blocks,
        at: u64,
        till: Option<u64>,
    ) -> Result<&'a [u8], Error> {
        let nth = at / BLOCK;
        let till = till.filter(|_| !blocks.has_left(nth));
        let (from, bytes) = match till {
            None if !blocks.has(nth) => {
                let from = at / SPOT * SPOT;
                (from, self.spot(blocks, from)?)
            }
            None => (nth * BLOCK, self.block(blocks, nth, at)?),
            Some(till) => (nth * BLOCK, self.block(blocks, nth, till)?),
        };
        let skipped = usize::try_from(at - from).unwrap_or(usize::MAX);
        let rest = bytes.get(skipped..).filter(|rest| !rest.is_empty());
        rest.ok_or_else(|| self.failed(&CallError::new(Reason::Condition, "it is shorter now")))
    }

    /// Returns the bytes around a packet that was lost.
    fn spot<'a>(&self, blocks: &'a mut Blocks, from: u64) -> Result<&'a [u8], Error> {
        if blocks.spot.as_ref().is_none_or(|(at, _)| *at != from) {
            let range = (from, (from + SPOT).min(self.known.size));
            let reader = self.reader(range);
            let read = || self.shared.wait(reader.all());
            let read = self.reach.judge(read).map_err(|error| self.failed(&error));
            blocks.spot = Some((from, read?.bytes));
        }
        Ok(blocks.spot.as_ref().map_or(&[], |(_, bytes)| bytes))
    }

    /// Returns a block. Requests blocks after it up to `till`, as long as there is room in memory.
    fn block<'a>(&self, blocks: &'a mut Blocks, nth: u64, till: u64) -> Result<&'a [u8], Error> {
        if blocks.newest.is_none_or(|newest| nth > newest) {
            blocks.newest = Some(nth);
            blocks.forget(nth.saturating_sub(1)..=nth + AHEAD);
        }
        if !blocks.has(nth) {
            // this one needs no room, so that all readers proceed
            blocks.coming.insert(nth, self.request(nth, None));
        }
        let end = till.min(self.known.size).div_ceil(BLOCK);
        for next in nth + 1..end.min(nth + 1 + AHEAD) {
            if blocks.has(next) {
                continue;
            }
            let Some(room) = self.shared.free_room(BLOCK) else {
                break;
            };
            blocks.coming.insert(next, self.request(next, Some(room)));
        }
        if let Some(task) = blocks.coming.remove(&nth) {
            let come = || self.shared.wait(async { task.await.map_err(|_| ended())? });
            let come = self
                .reach
                .judge(come)
                .map_err(|error| self.failed(&error))?;
            self.compare(nth, &come.bytes)?;
            blocks.here.insert(nth, come);
        }
        Ok(blocks.here.get(&nth).map_or(&[], |block| &*block.bytes))
    }

    /// Requests a block.
    fn request(&self, nth: u64, room: Option<OwnedSemaphorePermit>) -> Coming {
        let reader = self.reader((nth * BLOCK, ((nth + 1) * BLOCK).min(self.known.size)));
        self.shared.spawn(async move {
            let bytes = reader.all().await?.bytes;
            Ok(Block { bytes, _room: room })
        })
    }

    /// Returns the reader of a range of the version that is known.
    fn reader(&self, range: (u64, u64)) -> RangeReader {
        let range = (range != (0, self.known.size)).then_some(range);
        RangeReader::new(&self.shared.bucket, &self.key, range, &self.known)
    }

    /// Compares the whole object with its checksum, after all of its blocks have come.
    fn compare(&self, nth: u64, bytes: &[u8]) -> Result<(), Error> {
        let Some(crc) = self.known.crc else {
            return Ok(());
        };
        let object = Summed {
            key: &self.key,
            version: version(&self.known).mark(),
            size: self.known.size,
            crc,
        };
        if self.sums.add(object, nth * BLOCK, bytes) {
            return Ok(());
        }
        let fault = Fault::Failed {
            what: format!("cannot read {}", self.place.display()),
            why: "its bytes differ from their checksum at the store; write the object again"
                .to_owned(),
            code: Code::Integrity,
        };
        Err(fault.into())
    }

    fn failed(&self, error: &CallError) -> Error {
        unread(error, &self.place, &self.shared.bucket.url(&self.key))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let blocks = self.blocks.get_mut();
        let blocks = blocks.unwrap_or_else(PoisonError::into_inner);
        blocks.coming.values().for_each(JoinHandle::abort);
    }
}

impl Blocks {
    /// Returns true if a block was in memory, and is no more.
    fn has_left(&self, nth: u64) -> bool {
        let is_behind = self.newest.is_some_and(|newest| nth < newest);
        is_behind && !self.has(nth)
    }

    /// Returns true if a block is in memory, or on its way.
    fn has(&self, nth: u64) -> bool {
        self.here.contains_key(&nth) || self.coming.contains_key(&nth)
    }

    /// Forgets all blocks but those in `kept`.
    fn forget(&mut self, kept: std::ops::RangeInclusive<u64>) {
        self.here.retain(|nth, _| kept.contains(nth));
        self.coming.retain(|nth, task| {
            let stays = kept.contains(nth);
            if !stays {
                task.abort();
            }
            stays
        });
    }
}

/// Returns the version of an object with these attributes.
pub(crate) fn version(known: &Attributes) -> Version {
    let etag = known.etag.as_deref().unwrap_or_default();
    let time = known.time();
    Version {
        inode: (0, checksum::of(etag.as_bytes())),
        changed: 0,
        look: Look {
            size: known.size,
            seconds: time.seconds,
            nanos: time.nanos,
        },
    }
}

fn unread(error: &CallError, place: &Path, url: &str) -> Error {
    of_request(error, ("cannot read", place), url)
}

/// Size of blocks.
const BLOCK: u64 = 8 << 20;
/// Number of blocks that are requested ahead.
const AHEAD: u64 = 4;
/// Size of what is read around a packet that was lost.
const SPOT: u64 = 1 << 20;
/// Number of requests without an answer, one after the other, after which a copy sends no more.
const FAILURES_MAX: u32 = 3;
