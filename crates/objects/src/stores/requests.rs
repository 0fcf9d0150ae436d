//! Execution of requests about objects.
//!
//! Common prefixes are shown as directories. Objects have no modes and owners, which are shown as zero.

use std::collections::BTreeSet;

use lighthaul_buckets::attributes::{Listed, Stamp};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::client::Patience;
use lighthaul_buckets::store::Bucket;
use lighthaul_files::request::{FileInfo, FileKind, FileReply, FileRequest};
use lighthaul_io::error::Error as World;
use lighthaul_io::host::interrupt;
use lighthaul_remote::place::Place;
use lighthaul_session::error::{Code, Error};

use crate::fault::Fault;
use crate::stores::keys;
use crate::stores::places;
use crate::stores::run::runtime;

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
    let mut executor = Executor {
        bucket,
        take,
        done: 0,
    };
    runtime()?.block_on(executor.execute(request))
}

/// A request that is executed.
struct Executor<'a> {
    bucket: Bucket,
    take: &'a mut dyn FnMut(FileReply) -> Result<(), Error>,
    done: u64,
}

impl Executor<'_> {
    async fn execute(&mut self, request: &FileRequest) -> Result<(), Error> {
        match request {
            FileRequest::List {
                path,
                hidden,
                recursive,
            } => self.list(&text(path), (*hidden, *recursive)).await?,
            FileRequest::Stat { paths } => {
                for path in paths {
                    let stat = self.stat(&text(path)).await;
                    self.or_failed(stat)?;
                }
            }
            FileRequest::Remove { paths, recursive } => {
                for path in paths {
                    let removed = self.remove(&text(path), *recursive).await;
                    self.or_failed(removed)?;
                }
            }
            FileRequest::Make { .. } => {
                let text = "object stores have no directories: copy files to their keys";
                return Err(Fault::Request(text.to_owned()).into());
            }
            FileRequest::Hash { .. } => {
                let text = "object stores do not hash their objects: copy them here first";
                return Err(Fault::Request(text.to_owned()).into());
            }
        }
        let done = self.done;
        (self.take)(FileReply::Done { done })
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
        if interrupt::is_requested() {
            return Err(World::Interrupted.into());
        }
        self.done += items.len() as u64;
        (self.take)(FileReply::Listed { items })
    }

    fn failed(&self, what: &str, key: &str) -> impl Fn(CallError) -> Error + use<> {
        let what = format!("cannot {what} {}", self.bucket.url(key));
        move |error| error.during(what.clone())
    }

    async fn list(&mut self, key: &str, (hidden, recursive): (bool, bool)) -> Result<(), Error> {
        let failed = self.failed("list", key);
        let prefix = keys::folder(key);
        let is_object = !key.is_empty() && !key.ends_with('/');
        if is_object && let Some(found) = self.bucket.attributes(key).await.map_err(&failed)? {
            let name = self.bucket.shown(key);
            return self.items(vec![file(name, found.size, found.time())]);
        }
        let is_shown = |name: &str| hidden || !name.split('/').any(|part| part.starts_with('.'));
        let mut is_there = key.is_empty();
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
            let text = "there is no such object, and none below it";
            return Err(failed(CallError::new(Reason::Missing, text)));
        }
        Ok(())
    }

    async fn stat(&mut self, key: &str) -> Result<(), Error> {
        let failed = self.failed("read the attributes of", key);
        let url = self.bucket.url(key);
        if !key.is_empty()
            && !key.ends_with('/')
            && let Some(found) = self.bucket.attributes(key).await.map_err(&failed)?
        {
            return self.items(vec![file(&url, found.size, found.time())]);
        }
        if !self
            .bucket
            .has_any(&keys::folder(key))
            .await
            .map_err(&failed)?
            && !key.is_empty()
        {
            let text = "there is no such object, and none below it";
            return Err(failed(CallError::new(Reason::Missing, text)));
        }
        self.items(vec![folder(&url)])
    }

    /// Removes an object, or all below a prefix.
    async fn remove(&mut self, key: &str, recursive: bool) -> Result<(), Error> {
        let failed = self.failed("remove", key);
        if self.bucket.web().is_some() {
            return Err(failed(CallError::new(
                Reason::Unsupported,
                "a web server is only a source of copies",
            )));
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
            let text = "there is no such object, and none below it";
            return Err(failed(CallError::new(Reason::Missing, text)));
        }
        if !recursive {
            let text = "there are objects below it; remove them with -r";
            return Err(failed(CallError::new(Reason::Unsupported, text)));
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
            if interrupt::is_requested() {
                return Err(World::Interrupted.into());
            }
            for result in results {
                self.done += u64::from(result.is_ok());
                self.or_failed(result)?;
            }
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

/// Retries of each request.
const RETRIES: u32 = 5;
const STALL: std::time::Duration = std::time::Duration::from_secs(20);
/// Objects that are removed at a time.
const TOGETHER: usize = 16;
