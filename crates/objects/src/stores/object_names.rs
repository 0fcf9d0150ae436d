//! Names of the objects that a copy writes, and what the target has of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use futures_util::stream::{self, StreamExt};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::store::Bucket;
use lighthaul_files::naming::Naming;
use lighthaul_files::options::Options;
use lighthaul_session::error::{Code, Error};

use crate::fault::Fault;
use crate::stores::decision::Existing;
use crate::stores::job::Job;
use crate::stores::keys;

/// Objects of the target by key.
pub(crate) type Objects = BTreeMap<Box<str>, Existing>;

/// One source of a copy with several sources.
#[derive(Clone, Debug)]
pub(crate) struct Top {
    pub(crate) name: String,
    pub(crate) is_folder: bool,
}

/// Target of a copy in a store.
#[derive(Debug)]
pub(crate) struct ObjectNames {
    pub(crate) bucket: Bucket,
    /// Prefix of all objects.
    pub(crate) prefix: String,
    /// First name of each path, if keys omit it.
    left_out: Option<String>,
    /// Key of the only object.
    only: Option<String>,
    /// Prefix below which all objects belong to the copy.
    pub(crate) scope: String,
}

impl ObjectNames {
    /// Returns the names for sources, of which `first` is the first name.
    pub(crate) async fn new(job: &Job, naming: Naming, first: &str) -> Result<Self, Error> {
        let (bucket, key) = job.open(&job.target)?;
        let prefix = keys::folder(&key);
        job.check_deletion(naming)?;
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
            left_out: renames.then(|| first.to_owned()),
            only,
            scope,
        })
    }

    /// Returns the key of the entry at `path`, or the reason why it can have none.
    pub(crate) fn key(&self, path: &Path) -> Result<String, &'static str> {
        if let Some(key) = &self.only {
            return Ok(key.clone());
        }
        if self.left_out.is_none() {
            return keys::key_of(&self.prefix, path);
        }
        let rest: PathBuf = path.components().skip(1).collect();
        keys::key_of(&self.prefix, &rest)
    }

    /// Returns the path of a key below the prefix, and the path of its entry in the source.
    pub(crate) fn paths(&self, key: &str) -> (String, String) {
        let path = key.strip_prefix(&self.prefix).unwrap_or(key).to_owned();
        let source = match &self.left_out {
            Some(first) => format!("{first}/{path}"),
            None => path.clone(),
        };
        (path, source)
    }

    /// Returns the objects at the target that the copy may replace or delete. `tops` has the names of several sources.
    pub(crate) async fn objects(&self, job: &Job, tops: &[Top]) -> Result<Objects, Error> {
        let mut objects = Objects::new();
        if let Some(key) = &self.only {
            self.look(job, vec![key.clone()], &mut objects).await?;
            return Ok(objects);
        }
        if job.options.listed {
            // each is looked at by itself
            return Ok(objects);
        }
        if tops.is_empty() {
            self.list(job, &self.scope, &mut objects).await?;
            return Ok(objects);
        }
        // a few files do not need the list of a large bucket
        let key = |top: &Top| format!("{}{}", self.prefix, top.name);
        let files = tops.iter().filter(|top| !top.is_folder).map(key);
        self.look(job, files.collect(), &mut objects).await?;
        for folder in tops.iter().filter(|top| top.is_folder).map(key) {
            self.list(job, &keys::folder(&folder), &mut objects).await?;
        }
        Ok(objects)
    }

    /// Reads the attributes of single objects.
    async fn look(&self, job: &Job, keys: Vec<String>, objects: &mut Objects) -> Result<(), Error> {
        let looks = keys
            .into_iter()
            .map(|key| async move { (look(job, &self.bucket, &key).await, key) });
        let mut looks = stream::iter(looks).buffer_unordered(LOOKS_MAX);
        while let Some(looked) = looks.next().await {
            let (found, key): (Result<Option<Existing>, Error>, String) = looked;
            objects.extend(found?.map(|found| (key.into_boxed_str(), found)));
        }
        Ok(())
    }

    /// Lists all objects below a prefix.
    async fn list(&self, job: &Job, prefix: &str, objects: &mut Objects) -> Result<(), Error> {
        let failed =
            |error: CallError| error.during(format!("cannot list {}", self.bucket.url(prefix)));
        let mut list = self.bucket.list(prefix);
        while let Some(page) = list.next().await.map_err(failed)? {
            let found = page.objects.into_iter();
            objects.extend(found.map(|object| {
                let existing = Existing::new(&job.options, object.size, object.etag);
                (object.key.into_boxed_str(), existing)
            }));
            if objects.len() > OBJECTS_MAX {
                let why = format!(
                    "it has more than {OBJECTS_MAX} objects: copy parts of the tree at a time"
                );
                let what = format!("cannot compare {}", self.bucket.url(prefix));
                let code = Code::Usage;
                return Err(Fault::Failed { what, why, code }.into());
            }
        }
        Ok(())
    }
}

/// Returns the object at the target that a copy may replace.
pub(crate) async fn look(job: &Job, bucket: &Bucket, key: &str) -> Result<Option<Existing>, Error> {
    let found = bucket.attributes(key).await;
    // without the attributes, options that depend on them could overwrite or delete objects
    let found = if needs_knowledge(&job.options) {
        found
    } else {
        or_unknown(found)
    };
    let url = bucket.url(key);
    let failed = |error: CallError| error.during(format!("cannot read the attributes of {url}"));
    let found = found.map_err(failed)?;
    Ok(found.map(|found| Existing::new(&job.options, found.size, found.etag)))
}

/// Returns true if the options depend on the objects at the target.
const fn needs_knowledge(options: &Options) -> bool {
    options.update || options.skip.existing || options.skip.missing
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

/// Maximum number of objects of a target that are compared, about 600 MiB of memory.
pub(crate) const OBJECTS_MAX: usize = 5_000_000;
/// Maximum number of objects whose attributes are read in parallel.
const LOOKS_MAX: usize = 16;
