//! Containers of Azure Blob Storage and buckets of Google Cloud Storage, by the clients of `object_store`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use lighthaul_session::error::Error;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, BackoffConfig, CopyMode, CopyOptions, GetOptions, GetRange,
    GetResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, RetryConfig, StaticCredentialProvider, UpdateVersion,
};

use crate::attributes::{Attributes, Condition, Listed, Page, Stamp};
use crate::call_error::{CallError, Reason};
use crate::client::{Chunks, Patience};
use crate::environment;

/// A bucket or container.
#[derive(Debug)]
pub(crate) struct Cloud {
    store: Box<dyn ObjectStore>,
}

/// The rest of a list.
pub(crate) struct Rest {
    objects: BoxStream<'static, object_store::Result<ObjectMeta>>,
    /// Next object of the list, if it was read ahead.
    ahead: Option<ObjectMeta>,
}

impl Cloud {
    /// Opens the bucket of Google Cloud Storage or the container of Azure that the scheme names.
    pub(crate) fn open(scheme: &str, bucket: &str, patience: Patience) -> Result<Self, Error> {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(500),
                max_backoff: Duration::from_secs(15),
                base: 2.0,
            },
            max_retries: patience.retries as usize,
            retry_timeout: RETRIES_TIMEOUT,
        };
        // bodies of requests count, too
        let options = patience.options()?.with_read_timeout(patience.stall * 2);
        let opened: object_store::Result<Box<dyn ObjectStore>> = if scheme == "az" {
            let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket);
            let builder = builder.with_client_options(options).with_retry(retry);
            builder.build().map(|store| Box::new(store) as _)
        } else {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
            if let Some(host) = environment::text("STORAGE_EMULATOR_HOST") {
                let url = if host.contains("://") {
                    host
                } else {
                    format!("http://{host}")
                };
                // an emulator takes any token
                let token = GcpCredential {
                    bearer: "none".to_owned(),
                };
                let credentials = StaticCredentialProvider::new(token);
                builder = builder.with_base_url(&url);
                builder = builder.with_credentials(Arc::new(credentials));
            }
            let builder = builder.with_client_options(options).with_retry(retry);
            builder.build().map(|store| Box::new(store) as _)
        };
        let failed =
            |error| CallError::of_store(&error).during(format!("cannot use {scheme}://{bucket}"));
        Ok(Self {
            store: opened.map_err(failed)?,
        })
    }

    /// Returns the list of all keys below a prefix, which is empty or ends with a slash.
    pub(crate) fn list(&self, prefix: &str) -> Result<Rest, CallError> {
        let prefix = prefix.trim_end_matches('/');
        let place = (!prefix.is_empty()).then(|| path(prefix)).transpose()?;
        // it is asked again after its end
        let objects = self.store.list(place.as_ref()).fuse().boxed();
        Ok(Rest {
            objects,
            ahead: None,
        })
    }

    /// Returns the keys and common prefixes directly below a prefix.
    pub(crate) async fn folder(&self, prefix: &str) -> Result<Page, CallError> {
        let prefix = prefix.trim_end_matches('/');
        let place = (!prefix.is_empty()).then(|| path(prefix)).transpose()?;
        let listed = self.store.list_with_delimiter(place.as_ref()).await;
        let listed = listed.map_err(|error| CallError::of_store(&error))?;
        Ok(Page {
            objects: listed.objects.iter().map(self::listed).collect(),
            folders: listed
                .common_prefixes
                .iter()
                .map(|place| format!("{place}/"))
                .collect(),
            next: None,
        })
    }

    pub(crate) async fn attributes(&self, key: &str) -> Result<Option<Attributes>, CallError> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        match self.store.get_opts(&path(key)?, options).await {
            Ok(found) => Ok(Some(attributes(&found))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(CallError::of_store(&error)),
        }
    }

    /// Begins to read a range of an object of `size` bytes, or all of it. Returns the attributes in the answer, and the
    /// bytes as they come. The client library continues after failures by itself.
    pub(crate) async fn open_range(
        &self,
        key: &str,
        (range, size): (Option<(u64, u64)>, u64),
        etag: Option<&str>,
    ) -> Result<(Attributes, Chunks), CallError> {
        let options = GetOptions {
            if_match: etag.map(str::to_owned),
            range: range.map(|(from, till)| GetRange::Bounded(from..till)),
            ..GetOptions::default()
        };
        let found = self.store.get_opts(&path(key)?, options).await;
        let found = found.map_err(|error| CallError::of_store(&error))?;
        let wanted = range.unwrap_or((0, size));
        if found.meta.size != size || (found.range.start, found.range.end) != wanted {
            let text = "the store sends another range than was asked for";
            return Err(CallError::new(Reason::Broken, text));
        }
        let attributes = attributes(&found);
        if let (Some(known), Some(now)) = (etag, attributes.etag.as_deref())
            && !is_same_tag(known, now)
        {
            let text = "the object has changed meanwhile";
            return Err(CallError::new(Reason::Condition, text));
        }
        let chunks = found.into_stream();
        let chunks = chunks.map(|chunk| chunk.map_err(|error| CallError::of_store(&error)));
        Ok((attributes, chunks.boxed()))
    }

    pub(crate) async fn write(
        &self,
        key: &str,
        bytes: Bytes,
        (stamp, condition): (Option<Stamp>, &Condition),
    ) -> Result<(), CallError> {
        let options = PutOptions {
            mode: match condition {
                Condition::Always => PutMode::Overwrite,
                Condition::Absent => PutMode::Create,
                Condition::Unchanged(etag) => self.update(key, etag).await?,
            },
            attributes: stamped(stamp),
            ..PutOptions::default()
        };
        let put = self
            .store
            .put_opts(&path(key)?, bytes.into(), options)
            .await;
        put.map(|_| ()).map_err(|error| CallError::of_store(&error))
    }

    /// Returns the mode that replaces the object with this `ETag`. Google needs the object's generation, which is not
    /// in lists.
    async fn update(&self, key: &str, etag: &str) -> Result<PutMode, CallError> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let found = self.store.get_opts(&path(key)?, options).await;
        let meta = found.map_err(|error| CallError::of_store(&error))?.meta;
        if !meta
            .e_tag
            .as_deref()
            .is_some_and(|now| is_same_tag(etag, now))
        {
            let text = "the object has changed meanwhile";
            return Err(CallError::new(Reason::Condition, text));
        }
        Ok(PutMode::Update(UpdateVersion {
            e_tag: meta.e_tag,
            version: meta.version,
        }))
    }

    /// Begins an upload in parts.
    pub(crate) async fn begin(
        &self,
        key: &str,
        stamp: Option<Stamp>,
    ) -> Result<Box<dyn MultipartUpload>, CallError> {
        let options = PutMultipartOptions {
            attributes: stamped(stamp),
            ..PutMultipartOptions::default()
        };
        let begun = self.store.put_multipart_opts(&path(key)?, options).await;
        begun.map_err(|error| CallError::of_store(&error))
    }

    /// Copies an object within the bucket, or only if there is none at `to`.
    pub(crate) async fn copy(
        &self,
        from: &str,
        (to, only_new): (&str, bool),
    ) -> Result<(), CallError> {
        let mode = if only_new {
            CopyMode::Create
        } else {
            CopyMode::Overwrite
        };
        let options = CopyOptions::new().with_mode(mode);
        let copied = self
            .store
            .copy_opts(&path(from)?, &path(to)?, options)
            .await;
        copied.map_err(|error| CallError::of_store(&error))
    }

    pub(crate) async fn remove(&self, key: &str) -> Result<(), CallError> {
        match self.store.delete(&path(key)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(CallError::of_store(&error)),
        }
    }
}

/// Returns the next objects of a list.
pub(crate) async fn page(rest: &mut Rest) -> Result<Option<Page>, CallError> {
    let mut page = Page::default();
    while page.objects.len() < PAGE_MAX {
        let next = rest.objects.next().await.transpose();
        let next = next.map_err(|error| CallError::of_store(&error))?;
        let is_over = next.is_none();
        let meta = std::mem::replace(&mut rest.ahead, next);
        let meta = meta.filter(|meta| !is_mark(meta, rest.ahead.as_ref()));
        page.objects.extend(meta.as_ref().map(listed));
        if is_over {
            break;
        }
    }
    Ok((!page.objects.is_empty()).then_some(page))
}

/// Returns true if an empty object marks the directory of the next object. The client library removes the slash at the
/// end of its key.
fn is_mark(meta: &ObjectMeta, next: Option<&ObjectMeta>) -> bool {
    let is_above = |next: &ObjectMeta| {
        let rest = next.location.as_ref().strip_prefix(meta.location.as_ref());
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    meta.size == 0 && next.is_some_and(is_above)
}

/// Returns true if two spellings of an `ETag` are equal: lists of Azure omit the quotes.
pub(crate) fn is_same_tag(one: &str, other: &str) -> bool {
    one.trim_matches('"') == other.trim_matches('"')
}

/// Returns the key as `object_store` takes it, which has no empty parts.
fn path(key: &str) -> Result<Path, CallError> {
    let broken = |_| {
        CallError::new(
            Reason::Unsupported,
            format!("the client of this store cannot name {key:?}"),
        )
    };
    let path = Path::parse(key).map_err(broken)?;
    if path.as_ref() != key {
        let text = format!("the client of this store cannot name {key:?}");
        return Err(CallError::new(Reason::Unsupported, text));
    }
    Ok(path)
}

fn listed(meta: &ObjectMeta) -> Listed {
    Listed {
        key: meta.location.to_string(),
        size: meta.size,
        modified: time(meta),
        etag: meta.e_tag.clone(),
    }
}

fn time(meta: &ObjectMeta) -> Stamp {
    Stamp {
        seconds: meta.last_modified.timestamp(),
        nanos: meta.last_modified.timestamp_subsec_nanos(),
    }
}

fn attributes(found: &GetResult) -> Attributes {
    let stamp = found.attributes.get(&Attribute::Metadata(MTIME.into()));
    Attributes {
        size: found.meta.size,
        modified: time(&found.meta),
        etag: found.meta.e_tag.clone(),
        stamp: stamp.and_then(|text| Stamp::parse(text)),
        ..Attributes::default()
    }
}

fn stamped(stamp: Option<Stamp>) -> object_store::Attributes {
    let pair = stamp.map(|stamp| {
        let value = AttributeValue::from(stamp.text());
        (Attribute::Metadata(MTIME.into()), value)
    });
    pair.into_iter().collect()
}

/// Metadata with the modification time of the file, as rclone names it.
const MTIME: &str = "mtime";
/// Maximum number of objects that are taken at a time.
const PAGE_MAX: usize = 1000;
/// Longest time for all attempts of one request.
const RETRIES_TIMEOUT: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[test]
    fn marks_of_directories_are_no_objects() {
        let meta = |(key, size): (&str, u64)| {
            Ok(ObjectMeta {
                location: Path::parse(key).unwrap(),
                last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
                size,
                e_tag: None,
                version: None,
            })
        };
        let objects = [
            ("a", 0),
            ("a-b", 0),
            ("dir", 0),
            ("dir/sub", 0),
            ("dir/sub/x", 1),
            ("dir2", 0),
            ("full", 2),
            ("full/x", 1),
        ];
        let objects: Vec<object_store::Result<ObjectMeta>> =
            objects.into_iter().map(meta).collect();
        let mut rest = Rest {
            objects: stream::iter(objects).fuse().boxed(),
            ahead: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let taken = runtime.block_on(page(&mut rest)).unwrap().unwrap();
        let keys: Vec<String> = taken.objects.into_iter().map(|object| object.key).collect();
        assert_eq!(keys, ["a", "a-b", "dir/sub/x", "dir2", "full", "full/x"]);
        assert!(runtime.block_on(page(&mut rest)).unwrap().is_none());
    }
}
