//! A bucket that a daemon serves as a directory, and the directories in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lighthaul_buckets::attributes::{Condition, Stamp};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::client::Patience;
use lighthaul_copy::object_target::{
    NewObject, ObjectFolder, ObjectTarget, ObjectUpload, SourcePath, StoreRequest, StoredObject,
    WriteCondition,
};
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::Options;
use lighthaul_files::request::FileReply;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::fault::Fault;
use crate::spool_space::SpoolPlace;
use crate::stores::job::PART;
use crate::stores::keys;
use crate::stores::places;
use crate::stores::requests::{Executor, Names};
use crate::stores::serving::bucket_upload::BucketUpload;
use crate::stores::serving::client_errors::of_request;
use crate::stores::serving::client_paths::key;
use crate::stores::serving::served_bucket::ServedBucket;
use crate::stores::serving::served_sources::Served;
use crate::stores::serving::spool::remove_leftovers;
use crate::stores::serving::upload_target::Target;

/// Bucket, or a prefix of it, as a directory.
#[derive(Debug)]
pub(crate) struct BucketTarget {
    shared: Arc<ServedBucket>,
    prefix: String,
    /// Path of the bucket that clients see.
    top: PathBuf,
}

/// Directory of a bucket, for one copy.
#[derive(Debug)]
struct Folder {
    shared: Arc<ServedBucket>,
    prefix: String,
    /// Path that clients see.
    path: PathBuf,
    /// Keys below the prefix, if one page of a list has all.
    all: Option<BTreeSet<String>>,
}

impl BucketTarget {
    /// Opens the bucket of `place`, which clients see as the directory `name`. Bytes whose parts are not complete are in `spool`. Looks at the bucket, so
    /// that a wrong setting fails at once.
    pub(crate) fn open(name: &str, place: &Place, spool: &SpoolPlace) -> Result<Self, Error> {
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
            top: Path::new("/").join(name),
        })
    }

    /// Returns the prefix of the objects in the directory `path`.
    fn prefix(&self, path: &Path) -> Result<String, Error> {
        if path.as_os_str().is_empty() {
            return Ok(self.prefix.clone());
        }
        let key = key(&self.prefix, path, &self.top)?;
        Ok(format!("{key}/"))
    }

    /// Returns the error of a list of the directory `path` with this prefix.
    fn unlisted(&self, error: &CallError, (path, prefix): (&Path, &str)) -> Error {
        let url = self.shared.bucket.url(prefix);
        of_request(error, ("cannot list", &self.top.join(path)), &url)
    }
}

impl ObjectTarget for BucketTarget {
    fn is_folder(&self, path: &Path) -> Result<bool, Error> {
        if path.as_os_str().is_empty() {
            return Ok(true);
        }
        let prefix = self.prefix(path)?;
        let any = self.shared.wait(self.shared.bucket.has_any(&prefix));
        any.map_err(|error| self.unlisted(&error, (path, &prefix)))
    }

    fn folder(&self, path: &Path) -> Result<Box<dyn ObjectFolder>, Error> {
        let prefix = self.prefix(path)?;
        let mut list = self.shared.bucket.list(&prefix);
        let listed = self.shared.wait(async {
            let first = list.next().await?.unwrap_or_default();
            let is_all = list.is_over();
            let keys = first.objects.into_iter().map(|object| object.key);
            Ok(is_all.then(|| keys.collect::<BTreeSet<_>>()))
        });
        Ok(Box::new(Folder {
            all: listed.map_err(|error| self.unlisted(&error, (path, &prefix)))?,
            shared: Arc::clone(&self.shared),
            prefix,
            path: self.top.join(path),
        }))
    }

    fn sources(&self, paths: &[SourcePath], options: &Options) -> Result<SourceEntries, Error> {
        let served = Served {
            shared: &self.shared,
            prefix: &self.prefix,
            top: &self.top,
        };
        served.entries(paths, options)
    }

    fn execute(
        &self,
        request: &StoreRequest<'_>,
        say: &mut dyn FnMut(FileReply) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let names = Names::Served {
            prefix: &self.prefix,
            top: &self.top,
            paths: request.paths,
        };
        let bucket = self.shared.bucket.clone();
        let executor = Executor::new((bucket, &names), say, request.check);
        let done = self.shared.run(executor.execute(request.request));
        done.map_err(|error| self.unlisted(&error, (Path::new(""), "")))?
    }

    fn close(&self, limit: Duration) {
        self.shared.close(limit);
    }
}

impl ObjectFolder for Folder {
    fn look(&self, path: &Path) -> Result<Option<StoredObject>, Error> {
        let key = key(&self.prefix, path, &self.path)?;
        if self.all.as_ref().is_some_and(|all| !all.contains(&key)) {
            return Ok(None);
        }
        let found = self.shared.wait(self.shared.bucket.attributes(&key));
        let found = found.map_err(|error| {
            let at = ("cannot read the attributes of", &*self.path.join(path));
            of_request(&error, at, &self.shared.bucket.url(&key))
        })?;
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
            key: key(&self.prefix, object.path, &self.path)?,
            path: self.path.join(object.path),
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
