//! Execution of requests about objects.
//!
//! Common prefixes are shown as directories. Objects have no modes and owners, which are shown as zero.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;

use futures_util::future::{Either, select};
use lighthaul_buckets::attributes::{Listed, Stamp};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::client::Patience;
use lighthaul_buckets::store::Bucket;
use lighthaul_files::request::{FileInfo, FileKind, FileReply, FileRequest};
use lighthaul_io::error::Error as World;
use lighthaul_io::host::interrupt;
use lighthaul_remote::place::Place;
use lighthaul_session::error::{Code, Error};
use tokio::time::sleep;

use crate::fault::Fault;
use crate::stores::keys;
use crate::stores::object_names::unusable;
use crate::stores::places;
use crate::stores::run::runtime;
use crate::stores::serving::client_errors::of_request;

/// Executes a request.
pub(crate) fn execute(
    place: &Place,
    request: &FileRequest,
    take: &mut dyn FnMut(FileReply) -> Result<(), Error>,
) -> Result<(), Error> {
    let patience = Patience {
        retries: RETRIES,
        redirects: true,
        stall: STALL,
        requests_max: usize::MAX,
    };
    let (bucket, _) = places::open(place, patience)?;
    let names = Names::Urls;
    let executor = Executor::new((bucket, &names), take, &|| Ok(()));
    runtime()?.block_on(async {
        let (work, end) = (pin!(executor.execute(request)), pin!(interruption()));
        match select(work, end).await {
            Either::Left((done, _)) => done.map(|_| ()),
            Either::Right(_) => Err(World::Interrupted.into()),
        }
    })
}

/// Waits until the command or its task is interrupted.
async fn interruption() {
    while !interrupt::is_requested() {
        sleep(LOOK).await;
    }
}

/// Names of objects for users.
pub(crate) enum Names<'a> {
    /// URLs. Paths of requests are keys.
    Urls,
    /// Paths below a directory, which is a prefix of the bucket.
    Served {
        /// Prefix, empty or with a slash at its end.
        prefix: &'a str,
        /// Path of the directory.
        top: &'a Path,
        /// Paths below the directory, in the order of the request.
        paths: &'a [PathBuf],
    },
}

/// A request that is executed.
pub(crate) struct Executor<'a> {
    bucket: Bucket,
    names: &'a Names<'a>,
    take: &'a mut dyn FnMut(FileReply) -> Result<(), Error>,
    /// Fails if the request was halted.
    check: &'a dyn Fn() -> Result<(), Error>,
    done: u64,
}

/// Path of a request.
struct Named {
    /// Path as the user wrote it.
    path: String,
    key: String,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(
        (bucket, names): (Bucket, &'a Names<'a>),
        take: &'a mut dyn FnMut(FileReply) -> Result<(), Error>,
        check: &'a dyn Fn() -> Result<(), Error>,
    ) -> Self {
        Self {
            bucket,
            names,
            take,
            check,
            done: 0,
        }
    }

    /// Executes a request. Returns the number of items that are done.
    pub(crate) async fn execute(mut self, request: &FileRequest) -> Result<u64, Error> {
        for (nth, path) in request.paths().iter().enumerate() {
            let named = self.named(nth, text(path));
            let done = match (named, request) {
                (Err(error), _) => Err(error),
                (
                    Ok(named),
                    FileRequest::List {
                        hidden, recursive, ..
                    },
                ) => {
                    let listed = self.list(&named, (*hidden, *recursive)).await;
                    // it is the only item of its request
                    if matches!(self.names, Names::Urls) {
                        listed?;
                        Ok(())
                    } else {
                        listed
                    }
                }
                (Ok(named), FileRequest::Stat { .. }) => self.stat(&named).await,
                (Ok(named), FileRequest::Remove { recursive, .. }) => {
                    self.remove(&named, *recursive).await
                }
                (_, FileRequest::Make { .. }) => {
                    let text = "object stores have no directories: copy files to their keys";
                    return Err(Fault::Request(text.to_owned()).into());
                }
                (_, FileRequest::Hash { .. }) => {
                    let text = "object stores do not hash their objects: copy them here first";
                    return Err(Fault::Request(text.to_owned()).into());
                }
            };
            self.or_failed(done)?;
        }
        let done = self.done;
        (self.take)(FileReply::Done { done })?;
        Ok(done)
    }

    /// Returns a path of the request with its key.
    fn named(&self, nth: usize, path: String) -> Result<Named, Error> {
        let key = match self.names {
            Names::Urls => path.clone(),
            Names::Served { prefix, top, paths } => match &paths[nth] {
                whole if whole.as_os_str().is_empty() => (*prefix).to_owned(),
                below => keys::key_of(prefix, below)
                    .map_err(|why| unusable(&top.join(below).to_string_lossy(), why))?,
            },
        };
        Ok(Named { path, key })
    }

    /// Returns the name of a key for users.
    fn shown(&self, key: &str) -> String {
        match self.names {
            Names::Urls => self.bucket.url(key),
            Names::Served { prefix, top, .. } => {
                let below = key.strip_prefix(prefix).unwrap_or_default();
                top.join(below).to_string_lossy().into_owned()
            }
        }
    }

    /// Reports an item that failed, unless the command ends.
    fn or_failed(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        match result {
            Err(error) if error.code() != Code::Interrupted => {
                let (code, why) = (error.code() as u8, error.text());
                (self.take)(FileReply::Failed { code, why })
            }
            result => result,
        }
    }

    fn items(&mut self, items: Vec<FileInfo>) -> Result<(), Error> {
        self.check()?;
        self.done += items.len() as u64;
        (self.take)(FileReply::Listed { items })
    }

    /// Fails if the request was interrupted or halted.
    fn check(&self) -> Result<(), Error> {
        if interrupt::is_requested() {
            return Err(World::Interrupted.into());
        }
        (self.check)()
    }

    /// Returns the errors of requests to the store about a key.
    fn failed(&self, what: &str, key: &str) -> impl Fn(CallError) -> Error + use<> {
        let (what, shown) = (format!("cannot {what}"), self.shown(key));
        let url = match self.names {
            Names::Urls => None,
            Names::Served { .. } => Some(self.bucket.url(key)),
        };
        move |error| match &url {
            None => error.during(format!("{what} {shown}")),
            Some(url) => of_request(&error, (&what, Path::new(&shown)), url),
        }
    }

    /// Returns the error about a key for a reason of this program.
    fn refused(&self, what: &str, key: &str, (reason, text): (Reason, &str)) -> Error {
        let what = format!("cannot {what} {}", self.shown(key));
        CallError::new(reason, text).during(what)
    }

    async fn list(
        &mut self,
        Named { path, key }: &Named,
        (hidden, recursive): (bool, bool),
    ) -> Result<(), Error> {
        let failed = self.failed("list", key);
        let prefix = keys::folder(key);
        let is_object = !key.is_empty() && !key.ends_with('/');
        if is_object && let Some(found) = self.bucket.attributes(key).await.map_err(&failed)? {
            let name = match self.names {
                Names::Urls => self.bucket.shown(key),
                Names::Served { .. } => path,
            };
            return self.items(vec![file(name, found.size, found.time())]);
        }
        let is_shown = |name: &str| hidden || !name.split('/').any(|part| part.starts_with('.'));
        let mut is_there = self.is_whole(key);
        if recursive {
            let mut list = self.bucket.list(&prefix);
            let mut folders = BTreeSet::new();
            while let Some(page) = list.next().await.map_err(&failed)? {
                is_there |= !page.objects.is_empty();
                let mut items = Vec::new();
                for object in &page.objects {
                    let name = object.key.strip_prefix(&prefix).unwrap_or(&object.key);
                    if !is_shown(name) {
                        continue;
                    }
                    for (end, _) in name.match_indices('/').filter(|(end, _)| *end > 0) {
                        if folders.insert(name[..end].to_owned()) {
                            items.push(folder(&name[..end]));
                        }
                    }
                    items.extend(listed(name, object));
                }
                self.items(items)?;
            }
        } else {
            let mut token = None;
            loop {
                let page = self
                    .bucket
                    .folder(&prefix, token.as_deref())
                    .await
                    .map_err(&failed)?;
                is_there |= !page.objects.is_empty() || !page.folders.is_empty();
                let name = |key: &str| key.strip_prefix(&prefix).unwrap_or(key).to_owned();
                let names = page
                    .folders
                    .iter()
                    .map(|key| name(key.trim_end_matches('/')));
                let mut items: Vec<FileInfo> = names
                    .filter(|name| is_shown(name))
                    .map(|name| folder(&name))
                    .collect();
                let objects = page
                    .objects
                    .iter()
                    .map(|object| (name(&object.key), object));
                let objects = objects.filter(|(name, _)| is_shown(name));
                items.extend(objects.filter_map(|(name, object)| listed(&name, object)));
                self.items(items)?;
                if page.next.is_none() || page.next == token {
                    break;
                }
                token = page.next;
            }
        }
        if !is_there {
            return Err(self.refused("list", key, MISSING));
        }
        Ok(())
    }

    /// Returns true for the key of the whole directory, which exists without objects, too.
    fn is_whole(&self, key: &str) -> bool {
        match self.names {
            Names::Urls => key.is_empty(),
            Names::Served { prefix, .. } => key == *prefix,
        }
    }

    async fn stat(&mut self, Named { path, key }: &Named) -> Result<(), Error> {
        const ACTION: &str = "read the attributes of";
        let failed = self.failed(ACTION, key);
        let name = match self.names {
            Names::Urls => self.bucket.url(key),
            Names::Served { .. } => path.clone(),
        };
        if !key.is_empty()
            && !key.ends_with('/')
            && let Some(found) = self.bucket.attributes(key).await.map_err(&failed)?
        {
            return self.items(vec![file(&name, found.size, found.time())]);
        }
        if !self
            .bucket
            .has_any(&keys::folder(key))
            .await
            .map_err(&failed)?
            && !self.is_whole(key)
        {
            return Err(self.refused(ACTION, key, MISSING));
        }
        self.items(vec![folder(&name)])
    }

    /// Removes an object, or all below a prefix.
    async fn remove(&mut self, Named { key, .. }: &Named, recursive: bool) -> Result<(), Error> {
        let failed = self.failed("remove", key);
        let refused = |text| Err(self.refused("remove", key, (Reason::Unsupported, text)));
        if self.bucket.web().is_some() {
            return refused("a web server is only a source of copies");
        }
        if matches!(self.names, Names::Served { .. }) && self.is_whole(key) {
            return refused("it is an object store; remove what is in it");
        }
        let is_object = !key.is_empty() && !key.ends_with('/');
        if is_object
            && self
                .bucket
                .attributes(key)
                .await
                .map_err(&failed)?
                .is_some()
        {
            self.bucket.remove(key).await.map_err(failed)?;
            self.done += 1;
            return Ok(());
        }
        let prefix = keys::folder(key);
        if !self.bucket.has_any(&prefix).await.map_err(&failed)? {
            return Err(self.refused("remove", key, MISSING));
        }
        if !recursive {
            return refused("there are objects below it; remove them with -r");
        }
        let mut list = self.bucket.list(&prefix);
        while let Some(page) = list.next().await.map_err(&failed)? {
            let removals = page.objects.iter().map(|object| async {
                let removed = self.bucket.remove(&object.key).await;
                removed.map_err(self.failed("remove", &object.key))
            });
            let results = futures_util::StreamExt::buffer_unordered(
                futures_util::stream::iter(removals),
                TOGETHER,
            );
            let results: Vec<Result<(), Error>> = futures_util::StreamExt::collect(results).await;
            self.check()?;
            for result in results {
                self.done += u64::from(result.is_ok());
                self.or_failed(result)?;
            }
            // the peer of a daemon must not take it for silent
            let done = self.done;
            (self.take)(FileReply::Busy { done })?;
        }
        Ok(())
    }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Returns the item of a listed object; marks of directories are none.
fn listed(name: &str, object: &Listed) -> Option<FileInfo> {
    let is_mark = name.is_empty() || name.ends_with('/') && object.size == 0;
    (!is_mark).then(|| file(name, object.size, object.modified))
}

fn file(name: &str, size: u64, time: Stamp) -> FileInfo {
    FileInfo {
        path: name.as_bytes().to_vec(),
        kind: FileKind::File,
        size,
        mode: 0,
        user: 0,
        group: 0,
        seconds: time.seconds,
        nanos: time.nanos,
    }
}

fn folder(name: &str) -> FileInfo {
    FileInfo {
        kind: FileKind::Folder,
        ..file(name, 0, Stamp::default())
    }
}

/// Reason of requests about what does not exist.
const MISSING: (Reason, &str) = (
    Reason::Missing,
    "there is no such object, and none below it",
);
/// Retries of each request.
const RETRIES: u32 = 5;
const STALL: std::time::Duration = std::time::Duration::from_secs(20);
/// Interval at which an interruption is looked for.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// Objects that are removed at a time.
const TOGETHER: usize = 16;
