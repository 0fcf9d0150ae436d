//! A bucket that a daemon serves as a directory, and the directories in it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lighthaul_copy::object_target::{
    NewObject, ObjectFolder, ObjectTarget, ObjectUpload, StoredObject, WriteCondition,
};
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault::Fault;
use crate::stores::bucket::attributes::{Condition, Listed, Stamp};
use crate::stores::bucket::call_error::{CallError, Reason};
use crate::stores::bucket::client::Patience;
use crate::stores::bucket::store::Bucket;
use crate::stores::job::PART;
use crate::stores::keys;
use crate::stores::object_names::unusable;
use crate::stores::run::runtime;
use crate::stores::serving::bucket_upload::{BucketUpload, Target};
use crate::stores::serving::spool::Spool;

/// Bucket, or a prefix of it, as a directory.
#[derive(Debug)]
pub(crate) struct BucketTarget {
    shared: Arc<Shared>,
    prefix: String,
}

/// Parts that all uploads to a bucket share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bucket: Bucket,
    pub(crate) runtime: Runtime,
    /// Room for complete parts in memory, in KiB.
    memory: Arc<Semaphore>,
    spool_folder: PathBuf,
    /// Spools, by the length of their slots.
    spools: Mutex<BTreeMap<u64, Arc<Spool>>>,
}

/// Directory of a bucket, for one copy.
#[derive(Debug)]
struct Folder {
    shared: Arc<Shared>,
    prefix: String,
    /// Objects below the prefix, if one page of a list has all.
    all: Option<BTreeMap<String, Listed>>,
}

impl BucketTarget {
    /// Opens the bucket of `place`. Bytes whose parts are not complete are in `spool_folder`. Looks at the bucket, so
    /// that a wrong setting fails at once.
    pub(crate) fn open(place: &Place, spool_folder: &Path) -> Result<Self, Error> {
        let is_s3 = matches!(place, Place::Object { scheme, .. } if scheme == "s3");
        if !is_s3 {
            let text = format!(
                "cannot serve {}: write s3://BUCKET/PREFIX, since other stores take the parts of an object in order",
                place.with_host(&String::from_utf8_lossy(place.path()))
            );
            return Err(Fault::Request(text).into());
        }
        let patience = Patience {
            retries: RETRIES,
            stall: STALL,
            redirects: false,
        };
        let (bucket, key) = Bucket::open(place, patience)?;
        let shared = Shared {
            bucket,
            runtime: runtime()?,
            memory: Arc::new(Semaphore::new(MEMORY_KIB as usize)),
            spool_folder: spool_folder.to_owned(),
            spools: Mutex::default(),
        };
        let prefix = keys::folder(&key);
        let url = shared.bucket.url(&prefix);
        let any = shared.runtime.block_on(shared.bucket.has_any(&prefix));
        any.map_err(|error| error.during(format!("cannot serve {url}")))?;
        shared.spool(PART).map_err(|error| {
            let folder = spool_folder.display();
            CallError::new(Reason::Unsupported, error.to_string())
                .during(format!("cannot use the spool directory {folder}"))
        })?;
        Ok(Self {
            shared: Arc::new(shared),
            prefix,
        })
    }

    /// Returns the prefix of the objects in the directory `path`.
    fn prefix(&self, path: &[u8]) -> Result<String, Error> {
        if path.is_empty() {
            return Ok(self.prefix.clone());
        }
        Ok(format!("{}/", self.shared.key(&self.prefix, path)?))
    }
}

impl ObjectTarget for BucketTarget {
    fn is_folder(&self, path: &[u8]) -> Result<bool, Error> {
        if path.is_empty() {
            return Ok(true);
        }
        let prefix = self.prefix(path)?;
        let (bucket, url) = (&self.shared.bucket, self.shared.bucket.url(&prefix));
        let any = self.shared.runtime.block_on(bucket.has_any(&prefix));
        any.map_err(|error| error.during(format!("cannot list {url}")))
    }

    fn folder(&self, path: &[u8]) -> Result<Box<dyn ObjectFolder>, Error> {
        let prefix = self.prefix(path)?;
        let (bucket, url) = (&self.shared.bucket, self.shared.bucket.url(&prefix));
        let mut list = bucket.list(&prefix);
        let listed = self.shared.runtime.block_on(async {
            let first = list.next().await?.unwrap_or_default();
            let is_all = list.next().await?.is_none();
            let objects = first.objects.into_iter();
            let all = objects.map(|object| (object.key.clone(), object));
            Ok(is_all.then(|| all.collect::<BTreeMap<_, _>>()))
        });
        let failed = |error: CallError| error.during(format!("cannot list {url}"));
        Ok(Box::new(Folder {
            shared: Arc::clone(&self.shared),
            prefix,
            all: listed.map_err(failed)?,
        }))
    }
}

impl ObjectFolder for Folder {
    fn look(&self, path: &[u8]) -> Result<Option<StoredObject>, Error> {
        let key = self.shared.key(&self.prefix, path)?;
        if self.all.as_ref().is_some_and(|all| !all.contains_key(&key)) {
            return Ok(None);
        }
        let (bucket, url) = (&self.shared.bucket, self.shared.bucket.url(&key));
        let found = self.shared.runtime.block_on(bucket.attributes(&key));
        let found =
            found.map_err(|error| error.during(format!("cannot read the attributes of {url}")))?;
        Ok(found.map(|found| StoredObject {
            size: found.size,
            seconds: found.time().seconds,
            nanos: found.time().nanos,
            version: found.etag,
        }))
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn ObjectUpload>, Error> {
        let (seconds, nanos) = object.time;
        let target = Target {
            key: self.shared.key(&self.prefix, object.path)?,
            size: object.size,
            stamp: Stamp { seconds, nanos },
            condition: match &object.condition {
                WriteCondition::Always => Condition::Always,
                WriteCondition::Absent => Condition::Absent,
                WriteCondition::Unchanged(etag) => Condition::Unchanged(etag.clone()),
            },
        };
        Ok(Box::new(BucketUpload::new(&self.shared, target)?))
    }
}

impl Shared {
    /// Returns the key of a path below a prefix.
    fn key(&self, prefix: &str, path: &[u8]) -> Result<String, Error> {
        let text = str::from_utf8(path).map_err(|_| "its name is not UTF-8, as keys are");
        let key = text.and_then(|path| keys::key_of(prefix, Path::new(path)));
        key.map_err(|why| {
            let path = String::from_utf8_lossy(path);
            unusable(&self.bucket.url(&format!("{prefix}{path}")), why)
        })
    }

    /// Waits for room for bytes in memory. A part that is larger than all of it gets all.
    pub(crate) fn room(&self, bytes: u64) -> Result<OwnedSemaphorePermit, CallError> {
        let wanted = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let wanted = wanted.clamp(1, MEMORY_KIB);
        let room = Arc::clone(&self.memory).acquire_many_owned(wanted);
        let room = self.runtime.block_on(room);
        room.map_err(|_| CallError::new(Reason::Broken, "the daemon ends"))
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

/// Retries of each request.
const RETRIES: u32 = 5;
/// Time without progress after which a request has failed.
const STALL: Duration = Duration::from_secs(20);
/// Complete parts in memory, of all copies to a bucket, in KiB.
const MEMORY_KIB: u32 = 128 << 10;
