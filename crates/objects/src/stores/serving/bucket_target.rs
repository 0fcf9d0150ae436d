//! A bucket that a daemon serves as a directory, and the directories in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_buckets::attributes::{Condition, Listed, Stamp};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::client::Patience;
use lighthaul_copy::object_target::{
    NewObject, ObjectFolder, ObjectTarget, ObjectUpload, StoredObject, WriteCondition,
};
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::fault::Fault;
use crate::spool_space::SpoolPlace;
use crate::stores::job::PART;
use crate::stores::keys;
use crate::stores::places;
use crate::stores::serving::bucket_upload::{BucketUpload, Target};
use crate::stores::serving::served_bucket::ServedBucket;
use crate::stores::serving::spool::remove_leftovers;

/// Bucket, or a prefix of it, as a directory.
#[derive(Debug)]
pub(crate) struct BucketTarget {
    shared: Arc<ServedBucket>,
    prefix: String,
}

/// Directory of a bucket, for one copy.
#[derive(Debug)]
struct Folder {
    shared: Arc<ServedBucket>,
    prefix: String,
    /// Objects below the prefix, if one page of a list has all.
    all: Option<BTreeMap<String, Listed>>,
}

impl BucketTarget {
    /// Opens the bucket of `place`. Bytes whose parts are not complete are in `spool`. Looks at the bucket, so
    /// that a wrong setting fails at once.
    pub(crate) fn open(place: &Place, spool: &SpoolPlace) -> Result<Self, Error> {
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
            requests_max: REQUESTS_MAX,
        };
        let (bucket, key) = places::open(place, patience)?;
        let shared = ServedBucket::new(bucket, spool)?;
        let prefix = keys::folder(&key);
        let url = shared.bucket.url(&prefix);
        let any = shared.wait(shared.bucket.has_any(&prefix));
        any.map_err(|error| error.during(format!("cannot serve {url}")))?;
        remove_leftovers(&spool.folder);
        shared.spool(PART).map_err(|error| {
            let folder = spool.folder.display();
            CallError::new(Reason::Unsupported, error.to_string())
                .during(format!("cannot use the spool directory {folder}"))
        })?;
        Ok(Self {
            shared: Arc::new(shared),
            prefix,
        })
    }

    /// Returns the prefix of the objects in the directory `path`.
    fn prefix(&self, path: &Path) -> Result<String, Error> {
        if path.as_os_str().is_empty() {
            return Ok(self.prefix.clone());
        }
        Ok(format!("{}/", self.shared.key(&self.prefix, path)?))
    }
}

impl ObjectTarget for BucketTarget {
    fn is_folder(&self, path: &Path) -> Result<bool, Error> {
        if path.as_os_str().is_empty() {
            return Ok(true);
        }
        let prefix = self.prefix(path)?;
        let (bucket, url) = (&self.shared.bucket, self.shared.bucket.url(&prefix));
        let any = self.shared.wait(bucket.has_any(&prefix));
        any.map_err(|error| error.during(format!("cannot list {url}")))
    }

    fn folder(&self, path: &Path) -> Result<Box<dyn ObjectFolder>, Error> {
        let prefix = self.prefix(path)?;
        let (bucket, url) = (&self.shared.bucket, self.shared.bucket.url(&prefix));
        let mut list = bucket.list(&prefix);
        let listed = self.shared.wait(async {
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

    fn close(&self, limit: Duration) {
        self.shared.close(limit);
    }
}

impl ObjectFolder for Folder {
    fn look(&self, path: &Path) -> Result<Option<StoredObject>, Error> {
        let key = self.shared.key(&self.prefix, path)?;
        if self.all.as_ref().is_some_and(|all| !all.contains_key(&key)) {
            return Ok(None);
        }
        let (bucket, url) = (&self.shared.bucket, self.shared.bucket.url(&key));
        let found = self.shared.wait(bucket.attributes(&key));
        let found =
            found.map_err(|error| error.during(format!("cannot read the attributes of {url}")))?;
        Ok(found.map(|found| StoredObject {
            size: found.size,
            seconds: found.time().seconds,
            nanos: found.time().nanos,
            has_source_time: found.stamp.is_some(),
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
            is_strict: object.is_strict,
        };
        Ok(Box::new(BucketUpload::new(&self.shared, target)?))
    }
}

/// Maximum number of requests to a bucket at a time, of all clients.
const REQUESTS_MAX: usize = 64;
/// Retries of each request.
const RETRIES: u32 = 5;
/// Time without progress after which a request has failed.
const STALL: Duration = Duration::from_secs(20);
