//! A bucket, container or web server, whichever the place names.

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use lighthaul_session::error::Error;
use object_store::MultipartUpload;

use crate::attributes::{Attributes, Completion, Condition, HeldPart, Page, Stamp};
use crate::call_error::{CallError, Reason};
use crate::checksum;
use crate::client::{Chunks, Patience};
use crate::cloud::{self, Cloud};
use crate::s3::S3;
use crate::sent_object::{SentObject, are_equal, may_be_own};
use crate::web::Web;

/// Bucket, container or web server. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Scheme and name, as in `s3://bucket`.
    pub name: Arc<str>,
    pub(crate) store: Arc<Store>,
}

/// Client of a kind of stores.
#[derive(Debug)]
pub(crate) enum Store {
    S3(S3),
    Cloud(Cloud),
    Web(Web),
}

/// Upload of one object in parts.
#[derive(Debug)]
pub enum Upload {
    /// Upload to S3, which takes parts in any order, with its name in the store.
    S3(String),
    /// Upload to another store, which takes parts in order.
    Cloud(Box<dyn MultipartUpload>),
}

impl Bucket {
    /// Opens the bucket, container or web server of this scheme and name. Sends nothing.
    pub fn open((scheme, bucket): (&str, &str), patience: Patience) -> Result<Self, Error> {
        let store = match scheme {
            "s3" => Store::S3(S3::open(bucket, patience)?),
            "gs" | "az" => Store::Cloud(Cloud::open(scheme, bucket, patience)?),
            _ => Store::Web(Web::open(scheme, bucket, patience)?),
        };
        Ok(Self {
            name: format!("{scheme}://{bucket}").into(),
            store: Arc::new(store),
        })
    }

    /// Returns the web server, if it is one.
    pub fn web(&self) -> Option<&Web> {
        match &*self.store {
            Store::Web(web) => Some(web),
            Store::S3(_) | Store::Cloud(_) => None,
        }
    }

    /// Returns the URL of an object for messages and records.
    pub fn url(&self, key: &str) -> String {
        format!("{}/{}", self.name, self.shown(key))
    }

    /// Returns a key for messages and records: without the query of a web server, which may be a signature.
    pub fn shown<'a>(&self, key: &'a str) -> &'a str {
        match &*self.store {
            Store::Web(_) => key.split(['?', '#']).next().unwrap_or(key),
            Store::S3(_) | Store::Cloud(_) => key,
        }
    }

    /// Returns true if the store compares what it takes with checksums.
    pub fn has_checksums(&self) -> bool {
        matches!(&*self.store, Store::S3(s3) if s3.has_checksums)
    }

    /// Returns true if the store tells which parts of an upload it has.
    pub fn resumes_uploads(&self) -> bool {
        matches!(&*self.store, Store::S3(_))
    }

    /// Returns the size of the largest object.
    pub fn size_max(&self) -> u64 {
        if self.name.starts_with("az://") {
            // 50,000 blocks of 4,000 MiB
            50_000 * (4_000 << 20)
        } else {
            OBJECT_MAX
        }
    }

    /// Returns the list of all objects below a prefix, which is empty or ends with a slash.
    pub fn list(&self, prefix: &str) -> Lister {
        Lister {
            bucket: self.clone(),
            prefix: prefix.to_owned(),
            token: None,
            rest: None,
            firsts: BTreeSet::new(),
            empty: 0,
            is_over: false,
        }
    }

    /// Returns one page of what is directly below a prefix, after the one with `token`.
    pub async fn folder(&self, prefix: &str, token: Option<&str>) -> Result<Page, CallError> {
        match &*self.store {
            Store::S3(s3) => s3.page(prefix, true, (token, KEYS_MAX)).await,
            Store::Cloud(cloud) => cloud.folder(prefix).await,
            Store::Web(_) => Err(unsupported("a web server does not list its files")),
        }
    }

    /// Returns true if there are objects below a prefix.
    pub async fn has_any(&self, prefix: &str) -> Result<bool, CallError> {
        match &*self.store {
            Store::S3(s3) => Ok(!s3.page(prefix, false, (None, 1)).await?.objects.is_empty()),
            Store::Cloud(cloud) => Ok(cloud::page(&mut cloud.list(prefix)?).await?.is_some()),
            Store::Web(_) => Ok(false),
        }
    }

    /// Returns the attributes of an object, or none if it does not exist.
    pub async fn attributes(&self, key: &str) -> Result<Option<Attributes>, CallError> {
        match &*self.store {
            Store::S3(s3) => s3.attributes(key).await,
            Store::Cloud(cloud) => cloud.attributes(key).await,
            Store::Web(web) => match web.look(key).await {
                Ok(file) => Ok(Some(file.attributes)),
                Err(error) if error.reason == Reason::Missing => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// Begins to read a range of an object with these attributes, or all of it. Returns the attributes in the answer, and
    /// the bytes as they come.
    pub(crate) async fn open_range(
        &self,
        key: &str,
        range: Option<(u64, u64)>,
        known: &Attributes,
    ) -> Result<(Attributes, Chunks), CallError> {
        let etag = known.etag.as_deref();
        match &*self.store {
            Store::S3(s3) => s3.open_range(key, (range, known.size), etag).await,
            Store::Cloud(cloud) => cloud.open_range(key, (range, known.size), etag).await,
            Store::Web(web) => {
                let range = range.unwrap_or((0, known.size));
                let chunks = web.open_range(key, range, known).await?;
                Ok((known.clone(), chunks))
            }
        }
    }

    /// Takes the next bytes of an object.
    pub(crate) async fn next_bytes(&self, chunks: &mut Chunks) -> Result<Option<Bytes>, CallError> {
        match &*self.store {
            Store::S3(s3) => s3.next_bytes(chunks).await,
            Store::Cloud(_) => chunks.next().await.transpose(),
            Store::Web(web) => web.next_bytes(chunks).await,
        }
    }

    /// Returns the pauses between attempts to read an object.
    pub(crate) fn pauses(&self) -> Box<dyn Iterator<Item = Duration> + Send> {
        match &*self.store {
            Store::S3(s3) => Box::new(s3.pauses()),
            // its client has tried again
            Store::Cloud(_) => Box::new(std::iter::empty()),
            Store::Web(web) => Box::new(web.pauses()),
        }
    }

    /// Writes an object with the modification time of its file. Returns true if the store reports an equal checksum.
    /// Succeeds, too, if the condition does not hold because an attempt whose answer was lost has written the object.
    pub async fn write(
        &self,
        key: &str,
        bytes: Bytes,
        (stamp, condition): (Option<Stamp>, &Condition),
    ) -> Result<bool, CallError> {
        let (all, how) = (bytes.clone(), (stamp, condition));
        let written = match &*self.store {
            Store::S3(s3) => s3.write(key, bytes, how).await,
            Store::Cloud(cloud) => cloud.write(key, bytes, how).await.map(|()| false),
            Store::Web(_) => Err(unsupported(READ_ONLY)),
        };
        match written {
            Err(refused) if may_be_own(condition, &refused) => {
                let sent = SentObject::of_bytes(key, &all, stamp);
                self.settled(sent, refused).await
            }
            written => written,
        }
    }

    /// Begins an upload in parts.
    pub async fn begin(&self, key: &str, stamp: Option<Stamp>) -> Result<Upload, CallError> {
        match &*self.store {
            Store::S3(s3) => s3.begin(key, stamp).await.map(Upload::S3),
            Store::Cloud(cloud) => cloud.begin(key, stamp).await.map(Upload::Cloud),
            Store::Web(_) => Err(unsupported(READ_ONLY)),
        }
    }

    /// Returns the parts of an upload that the store has, or none if it does not know the upload.
    pub async fn parts(&self, key: &str, id: &str) -> Result<Option<Vec<HeldPart>>, CallError> {
        match &*self.store {
            Store::S3(s3) => s3.parts(key, id).await,
            Store::Cloud(_) | Store::Web(_) => Ok(None),
        }
    }

    /// Sends the next part of an upload.
    pub fn send_part(
        &self,
        key: &str,
        upload: &mut Upload,
        (number, bytes): (u32, Bytes),
    ) -> BoxFuture<'static, Result<HeldPart, CallError>> {
        match upload {
            Upload::S3(id) => {
                let (bucket, key, id) = (self.clone(), key.to_owned(), id.clone());
                let send = async move {
                    match &*bucket.store {
                        Store::S3(s3) => s3.send_part((&key, &id), number, bytes).await,
                        Store::Cloud(_) | Store::Web(_) => Err(unsupported(READ_ONLY)),
                    }
                };
                send.boxed()
            }
            Upload::Cloud(upload) => {
                let size = bytes.len() as u64;
                let sent = upload.put_part(bytes.into());
                let send = async move {
                    sent.await.map_err(|error| CallError::of_store(&error))?;
                    let etag = String::new();
                    Ok(HeldPart {
                        number,
                        size,
                        etag,
                        crc: None,
                    })
                };
                send.boxed()
            }
        }
    }

    /// Completes the object from its parts, in order. Returns true if the store reports an equal checksum. Succeeds, too,
    /// if the request is refused because an attempt whose answer was lost has made the object.
    pub async fn complete(
        &self,
        (key, upload): (&str, &mut Upload),
        parts: &[HeldPart],
        whole: Completion<'_>,
    ) -> Result<bool, CallError> {
        match (&*self.store, upload) {
            (Store::S3(s3), Upload::S3(id)) => {
                let refused = match s3.complete((key, id), parts, whole).await {
                    // the store does not know an upload that is complete
                    Err(error)
                        if error.reason == Reason::Missing
                            || may_be_own(whole.condition, &error) =>
                    {
                        error
                    }
                    made => return made,
                };
                let sent = SentObject {
                    key,
                    size: parts.iter().map(|part| part.size).sum(),
                    stamp: whole.stamp,
                    crc: whole.crc,
                    bytes: None,
                };
                self.settled(sent, refused).await
            }
            (_, Upload::Cloud(upload)) => {
                // the client library cannot send a condition with this request
                if !self.holds(key, whole.condition).await? {
                    let text = "the object has changed meanwhile";
                    return Err(CallError::new(Reason::Condition, text));
                }
                let done = upload.complete().await;
                done.map(|_| false)
                    .map_err(|error| CallError::of_store(&error))
            }
            (_, Upload::S3(_)) => Err(unsupported(READ_ONLY)),
        }
    }

    /// Gives up an upload.
    pub async fn abort(&self, key: &str, upload: &mut Upload) -> Result<(), CallError> {
        match (&*self.store, upload) {
            (Store::S3(s3), Upload::S3(id)) => s3.abort(key, id).await,
            (_, Upload::Cloud(upload)) => upload
                .abort()
                .await
                .map_err(|error| CallError::of_store(&error)),
            (_, Upload::S3(_)) => Ok(()),
        }
    }

    /// Returns true if a condition holds now.
    pub async fn holds(&self, key: &str, condition: &Condition) -> Result<bool, CallError> {
        if *condition == Condition::Always {
            return Ok(true);
        }
        let now = self.attributes(key).await?;
        Ok(match condition {
            Condition::Always => true,
            Condition::Absent => now.is_none(),
            Condition::Unchanged(etag) => {
                let now = now.and_then(|now| now.etag);
                now.is_some_and(|now| cloud::is_same_tag(etag, &now))
            }
        })
    }

    /// Returns true if the store itself can copy objects of this size from the other bucket, under a condition.
    pub fn copies_from(&self, other: &Self, size: u64, condition: &Condition) -> bool {
        match (&*self.store, &*other.store) {
            (Store::S3(to), Store::S3(from)) => to.is_with(from) && size <= COPY_MAX,
            (Store::Cloud(_), Store::Cloud(_)) => {
                self.name == other.name && !matches!(condition, Condition::Unchanged(_))
            }
            _ => false,
        }
    }

    /// Copies an object of the same store. Succeeds, too, if the condition does not hold because an attempt whose answer
    /// was lost has made the copy.
    pub async fn copy(
        &self,
        source: (&Self, &str, Option<&str>),
        (to, condition): (&str, &Condition),
    ) -> Result<(), CallError> {
        let (from, key, etag) = source;
        let copied = match (&*self.store, &*from.store) {
            (Store::S3(s3), Store::S3(from)) => s3.copy((from, key), etag, (to, condition)).await,
            (Store::Cloud(cloud), Store::Cloud(_)) => {
                cloud.copy(key, (to, *condition == Condition::Absent)).await
            }
            _ => Err(unsupported("the stores are not the same")),
        };
        match copied {
            Err(refused) if may_be_own(condition, &refused) => {
                self.settled_copy(source, to, refused).await
            }
            copied => copied,
        }
    }

    /// Returns the result of a request that was refused for this reason: success, if an earlier attempt has written the
    /// object. The value is true if the store reports an equal checksum.
    async fn settled(&self, sent: SentObject<'_>, refused: CallError) -> Result<bool, CallError> {
        let there = self.found(sent.key, &refused).await?;
        if !sent.is_like(&there) {
            return Err(refused);
        }
        if there.crc.is_some() {
            return Ok(true);
        }
        match sent.bytes {
            Some(bytes) if self.has_bytes(sent.key, &there, bytes).await? => Ok(false),
            Some(_) | None => Err(refused),
        }
    }

    /// Returns true if an object with these attributes has these bytes.
    async fn has_bytes(
        &self,
        key: &str,
        there: &Attributes,
        bytes: &Bytes,
    ) -> Result<bool, CallError> {
        let (_, mut chunks) = self.open_range(key, None, there).await?;
        let mut rest = &**bytes;
        while let Some(chunk) = self.next_bytes(&mut chunks).await? {
            let Some(left) = rest.strip_prefix(&*chunk) else {
                return Ok(false);
            };
            rest = left;
        }
        Ok(rest.is_empty())
    }

    /// Returns the result of a copy by the store that was refused for this reason: success, if an earlier attempt has
    /// made the copy.
    async fn settled_copy(
        &self,
        (from, key, etag): (&Self, &str, Option<&str>),
        to: &str,
        refused: CallError,
    ) -> Result<(), CallError> {
        let there = self.found(to, &refused).await?;
        let source = from.found(key, &refused).await?;
        let is_known = etag.is_none_or(|etag| source.etag.as_deref() == Some(etag));
        let is_same = source.size == there.size && source.stamp == there.stamp;
        let is_own = is_known && is_same && are_equal(&source, &there);
        is_own.then_some(()).ok_or(refused)
    }

    /// Returns the attributes of an object. If there is none, or this host may not see it, the refusal holds.
    async fn found(&self, key: &str, refused: &CallError) -> Result<Attributes, CallError> {
        match self.attributes(key).await {
            Ok(found) => found.ok_or_else(|| refused.clone()),
            Err(error) if error.is_passing() => Err(error),
            Err(_) => Err(refused.clone()),
        }
    }

    /// Removes an object.
    pub async fn remove(&self, key: &str) -> Result<(), CallError> {
        match &*self.store {
            Store::S3(s3) => s3.remove(key).await,
            Store::Cloud(cloud) => cloud.remove(key).await,
            Store::Web(_) => Err(unsupported(READ_ONLY)),
        }
    }
}

/// List of all objects below a prefix, in pages.
pub struct Lister {
    bucket: Bucket,
    prefix: String,
    token: Option<String>,
    rest: Option<cloud::Rest>,
    /// Checksums of the first key of each page of the list.
    firsts: BTreeSet<u64>,
    /// Pages without a key.
    empty: u32,
    is_over: bool,
}

impl Lister {
    /// Returns the next page, or none at the end.
    pub async fn next(&mut self) -> Result<Option<Page>, CallError> {
        if self.is_over {
            return Ok(None);
        }
        let bucket = self.bucket.clone();
        let page = match &*bucket.store {
            Store::S3(s3) => {
                let at = (self.token.as_deref(), KEYS_MAX);
                Some(s3.page(&self.prefix, false, at).await?)
            }
            Store::Cloud(cloud) => {
                let rest = match &mut self.rest {
                    Some(rest) => rest,
                    none => none.insert(cloud.list(&self.prefix)?),
                };
                return cloud::page(rest).await;
            }
            Store::Web(_) => return Err(unsupported("a web server does not list its files")),
        };
        let Some(mut page) = page else {
            return Ok(None);
        };
        self.check(&page)?;
        self.token = page.next.take();
        self.is_over = self.token.is_none();
        self.empty += u32::from(page.objects.is_empty());
        Ok(Some(page))
    }

    /// Returns true if the store has said that no further page follows.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Fails if the list goes in a circle, so that it would have no end.
    fn check(&mut self, page: &Page) -> Result<(), CallError> {
        let first = page.objects.first();
        let first = first.map(|object| checksum::of(object.key.as_bytes()));
        let is_old = first.is_some_and(|first| !self.firsts.insert(first));
        let is_stuck = page.next.is_some() && page.next == self.token;
        if is_old || is_stuck || self.empty > EMPTY_MAX {
            let text = "the store repeats its list without an end";
            return Err(CallError::new(Reason::Broken, text));
        }
        Ok(())
    }
}

impl Debug for Lister {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut lister = f.debug_struct("Lister");
        lister.field("bucket", &self.bucket.name);
        lister.field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

fn unsupported(text: &str) -> CallError {
    CallError::new(Reason::Unsupported, text)
}

const READ_ONLY: &str = "a web server is only a source of copies";
/// Largest object of S3 and of Google.
const OBJECT_MAX: u64 = 5 << 40;
/// Maximum number of keys of a page.
const KEYS_MAX: u32 = 1000;
/// Maximum number of pages of a list that have no key.
const EMPTY_MAX: u32 = 1000;
/// Largest object that S3 copies in one request.
const COPY_MAX: u64 = 5 << 30;
