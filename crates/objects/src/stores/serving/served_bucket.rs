//! A bucket that a daemon serves: its client, and the memory and files that all uploads to it share.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::store::Bucket;
use lighthaul_session::error::Error;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::spool_space::{SpoolPlace, SpoolSpace};
use crate::stores::keys;
use crate::stores::object_names::unusable;
use crate::stores::run::runtime;
use crate::stores::serving::spool::Spool;

/// Bucket, with the memory and the files that all uploads to it share.
#[derive(Debug)]
pub(crate) struct ServedBucket {
    pub(crate) bucket: Bucket,
    pub(crate) runtime: Runtime,
    /// Room for complete parts in memory, in KiB.
    memory: Arc<Semaphore>,
    /// Space of incomplete parts on disk.
    pub(crate) space: Arc<SpoolSpace>,
    spool_folder: PathBuf,
    /// Spools, by the length of their slots.
    spools: Mutex<BTreeMap<u64, Arc<Spool>>>,
}

impl ServedBucket {
    /// Creates the uploads to a bucket, with the place of their incomplete parts.
    pub(crate) fn new(bucket: Bucket, spool: &SpoolPlace) -> Result<Self, Error> {
        Ok(Self {
            bucket,
            runtime: runtime()?,
            memory: Arc::new(Semaphore::new(MEMORY_KIB as usize)),
            space: Arc::clone(&spool.space),
            spool_folder: spool.folder.clone(),
            spools: Mutex::default(),
        })
    }

    /// Returns the key of a path below a prefix.
    pub(crate) fn key(&self, prefix: &str, path: &Path) -> Result<String, Error> {
        keys::key_of(prefix, path).map_err(|why| {
            let path = path.display();
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

/// Complete parts in memory, of all copies to a bucket, in KiB.
const MEMORY_KIB: u32 = 128 << 10;
