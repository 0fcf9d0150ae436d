//! Names of the objects that a copy writes, and what the target has of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lighthaul_files::naming::Naming;
use lighthaul_session::error::{Code, Error};

use crate::fault::Fault;
use crate::stores::bucket::attributes::Listed;
use crate::stores::bucket::call_error::{CallError, Reason};
use crate::stores::bucket::store::Bucket;
use crate::stores::job::Job;
use crate::stores::keys;

/// Objects of the target by key.
pub(crate) type Objects = BTreeMap<String, Listed>;

/// Target of a copy in a store.
#[derive(Debug)]
pub(crate) struct ObjectNames {
    pub(crate) bucket: Bucket,
    /// Prefix of all objects.
    pub(crate) prefix: String,
    /// True if the first name of each path is left out.
    renames: bool,
    /// Key of the only object.
    only: Option<String>,
    /// Prefix below which all objects belong to the copy.
    pub(crate) scope: String,
}

impl ObjectNames {
    /// Returns the names for sources, of which `first` is the first name.
    pub(crate) async fn new(job: &Job, naming: Naming, first: &str) -> Result<Self, Error> {
        let (bucket, key) = Bucket::open(&job.target, job.patience)?;
        let prefix = keys::folder(&key);
        if job.options.delete && naming == Naming::Several {
            let text =
                "--delete needs one source, whose contents the target then has: give one directory";
            return Err(Fault::Request(text.to_owned()).into());
        }
        let is_inside = match naming {
            Naming::File if job.exact => false,
            Naming::File if job.is_inside() => true,
            Naming::File => {
                let any = or_unknown(bucket.has_any(&prefix).await);
                any.map_err(|error| error.during(format!("cannot list {}", bucket.url(&prefix))))?
            }
            Naming::Contents | Naming::Folder | Naming::Several => true,
        };
        let only = (naming == Naming::File).then(|| {
            if is_inside {
                format!("{prefix}{first}")
            } else {
                key
            }
        });
        if let Some(key) = &only {
            let name = key.trim_start_matches('/');
            keys::check(name).map_err(|why| unusable(&bucket.url(key), why))?;
        }
        let renames = naming == Naming::Folder && job.exact;
        let scope = if naming == Naming::Folder && !renames {
            format!("{prefix}{first}/")
        } else {
            prefix.clone()
        };
        Ok(Self {
            bucket,
            prefix,
            renames,
            only,
            scope,
        })
    }

    /// Returns the key of the entry at `path`, or the reason why it can have none.
    pub(crate) fn key(&self, path: &Path) -> Result<String, &'static str> {
        if let Some(key) = &self.only {
            return Ok(key.clone());
        }
        if !self.renames {
            return keys::key_of(&self.prefix, path);
        }
        let rest: PathBuf = path.components().skip(1).collect();
        keys::key_of(&self.prefix, &rest)
    }

    /// Returns the objects of the target that the copy may meet.
    pub(crate) async fn objects(&self) -> Result<Objects, Error> {
        let place = self.only.as_ref().unwrap_or(&self.scope);
        let failed =
            |error: CallError| error.during(format!("cannot list {}", self.bucket.url(place)));
        let mut objects = Objects::new();
        if let Some(key) = &self.only {
            let found = or_unknown(self.bucket.attributes(key).await).map_err(failed)?;
            objects.extend(found.map(|found| {
                let listed = Listed {
                    key: key.clone(),
                    size: found.size,
                    modified: found.modified,
                    etag: found.etag,
                };
                (key.clone(), listed)
            }));
            return Ok(objects);
        }
        let mut list = self.bucket.list(&self.scope);
        while let Some(page) = list.next().await.map_err(failed)? {
            let found = page.objects.into_iter();
            objects.extend(found.map(|object| (object.key.clone(), object)));
            if objects.len() > OBJECTS_MAX {
                let why = format!(
                    "it has more than {OBJECTS_MAX} objects: copy parts of the tree at a time"
                );
                let what = format!("cannot compare {}", self.bucket.url(&self.scope));
                let code = Code::Usage;
                return Err(Fault::Failed { what, why, code }.into());
            }
        }
        Ok(objects)
    }
}

/// Returns nothing in place of an answer that the store refuses: some keys may write a bucket, but not read it.
fn or_unknown<T: Default>(answer: Result<T, CallError>) -> Result<T, CallError> {
    match answer {
        Err(error) if error.reason == Reason::Denied => Ok(T::default()),
        answer => answer,
    }
}

/// Returns the error of a key that is not copied.
pub(crate) fn unusable(url: &str, why: &str) -> Error {
    Fault::Failed {
        what: format!(
            "cannot copy {}",
            lighthaul_base::escape::escape_name(url.as_bytes())
        ),
        why: format!("{why}; rename it, or exclude it"),
        code: Code::Open,
    }
    .into()
}

/// Maximum number of objects of a target that are compared, about 1 GiB of memory.
const OBJECTS_MAX: usize = 5_000_000;
