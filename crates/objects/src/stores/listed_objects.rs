//! Objects that a list of paths names, relative to a prefix. A path is that of one object, or of all objects below it.

use std::path::Path;
use std::thread;

use futures_util::stream::{self, BoxStream, StreamExt};
use lighthaul_base::escape::escape_name;
use lighthaul_buckets::attributes::{Attributes, Listed};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::store::Bucket;
use lighthaul_files::list::PathList;
use lighthaul_session::error::Error;
use tokio::sync::mpsc::channel;

use crate::fault::Fault;
use crate::stores::keys;
use crate::stores::object_names::unusable;
use crate::stores::object_sources::Source;

/// Meaning of a path of a list.
#[derive(Debug)]
pub(crate) enum Found {
    /// One object, with its attributes.
    Object(Listed, Attributes),
    /// All objects below a prefix.
    Folder(String),
    /// Nothing, or a path that no key can have.
    Failed(Failure),
}

/// Path of a list that is not copied.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) path: String,
    pub(crate) why: Why,
}

/// Reason why a path is not copied.
#[derive(Debug)]
pub(crate) enum Why {
    /// The list cannot be read.
    List(Error),
    /// No key can have this name.
    Name(&'static str),
    /// The request for the object with this key failed.
    Request(String, CallError),
}

impl Failure {
    /// Returns the path, and the error with the URL of the object.
    pub(crate) fn of(self, source: &Source) -> (String, Error) {
        let url = |key: &str| source.bucket.url(key);
        let error = match self.why {
            Why::List(error) => error,
            Why::Name(why) => unusable(&url(&format!("{}{}", source.key, self.path)), why),
            Why::Request(key, error) => {
                let url = url(&key);
                error.during(format!("cannot read {}", escape_name(url.as_bytes())))
            }
        };
        (self.path, error)
    }
}

/// Looks at the objects that the list names below a prefix, several at a time.
pub(crate) fn find(
    bucket: &Bucket,
    prefix: &str,
    names: PathList,
) -> Result<BoxStream<'static, Found>, Error> {
    let (bucket, prefix) = (bucket.clone(), prefix.to_owned());
    let looks = paths(names)?.map(move |path| {
        let (bucket, prefix) = (bucket.clone(), prefix.clone());
        async move {
            match path {
                Ok(path) => look(&bucket, &prefix, &path).await,
                Err(error) => Found::Failed(Failure {
                    path: String::new(),
                    why: Why::List(error),
                }),
            }
        }
    });
    Ok(looks.buffer_unordered(LOOKS_MAX).boxed())
}

/// Returns the paths of a list, which a thread reads: they may come from a slow program.
fn paths(
    mut names: PathList,
) -> Result<impl stream::Stream<Item = Result<Vec<u8>, Error>> + Send + 'static, Error> {
    let (say, paths) = channel(PATHS_MAX);
    let reading = move || {
        names.all(|name| say.blocking_send(name.map(|name| name.path)).is_ok());
    };
    let thread = thread::Builder::new().name("list".into()).spawn(reading);
    thread.map_err(|error| Fault::Request(format!("cannot start a thread: {error}")))?;
    Ok(stream::unfold(paths, |mut paths| async move {
        let path = paths.recv().await?;
        Some((path, paths))
    }))
}

async fn look(bucket: &Bucket, prefix: &str, path: &[u8]) -> Found {
    if path.is_empty() {
        return Found::Folder(prefix.to_owned());
    }
    let shown = String::from_utf8_lossy(path).into_owned();
    let failed = |why| Found::Failed(Failure { path: shown, why });
    let key = str::from_utf8(path).map_err(|_| "its name is not UTF-8, as keys are");
    let key = match key.and_then(|path| keys::key_of(prefix, Path::new(path))) {
        Ok(key) => key,
        Err(why) => return failed(Why::Name(why)),
    };
    match found(bucket, &key).await {
        Ok(found) => found,
        Err(error) => failed(Why::Request(key, error)),
    }
}

async fn found(bucket: &Bucket, key: &str) -> Result<Found, CallError> {
    if let Some(attributes) = bucket.attributes(key).await? {
        let listed = Listed {
            key: key.to_owned(),
            size: attributes.size,
            modified: attributes.modified,
            etag: attributes.etag.clone(),
        };
        return Ok(Found::Object(listed, attributes));
    }
    let prefix = keys::folder(key);
    if bucket.has_any(&prefix).await? {
        return Ok(Found::Folder(prefix));
    }
    let text = "there is no such object, and none below it";
    Err(CallError::new(Reason::Missing, text))
}

/// Maximum number of paths that are read ahead.
const PATHS_MAX: usize = 256;
/// Maximum number of paths that are looked at in parallel.
const LOOKS_MAX: usize = 16;
