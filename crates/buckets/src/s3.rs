//! Buckets of S3: signed requests for lists, attributes, ranges, uploads, copies and removals.
//!
//! Requests are signed and sent by parts of `object_store`. Its own client neither lists all keys, nor tells the checksums of objects, nor resumes uploads.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use lighthaul_session::error::Error;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::HttpRequest;
use url::Url;

use crate::address::{is_addressable, path, query};
use crate::answer::{attributes, failure, page};
use crate::attributes::{Attributes, Condition, Page, Stamp};
use crate::call_error::{CallError, Reason};
use crate::checksum;
use crate::client::{Answer, Call, Chunks, Client, Patience, length, retry};
use crate::credentials::Credentials;
use crate::environment;
use crate::profile::Profile;
use crate::ranges;

/// A bucket.
#[derive(Debug)]
pub(crate) struct S3 {
    client: Client,
    /// URL of the bucket, without a slash at its end.
    base: String,
    bucket: String,
    region: String,
    credentials: Credentials,
    /// True if the body of requests is signed, since the connection does not protect it.
    signs_bodies: bool,
    /// True if the store gets checksums and verifies them.
    pub(crate) has_checksums: bool,
}

impl S3 {
    /// Opens a bucket with the settings of the environment. Sends nothing.
    pub(crate) fn open(bucket: &str, patience: Patience) -> Result<Self, Error> {
        let profile = Profile::read()?;
        let set = |names: &[&str], setting: &str| {
            environment::first(names).or_else(|| profile.get(setting).map(str::to_owned))
        };
        let region = set(&["AWS_REGION", "AWS_DEFAULT_REGION"], "region");
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = set(
            &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
            "endpoint_url",
        );
        let base = match endpoint {
            Some(endpoint) => format!("{}/{bucket}", checked(&endpoint)?),
            // the certificate of the service covers no further dots
            None if bucket.contains('.') => format!("https://s3.{region}.amazonaws.com/{bucket}"),
            None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        };
        let checksums = environment::text("AWS_REQUEST_CHECKSUM_CALCULATION");
        Ok(Self {
            client: Client::new(patience)?,
            signs_bodies: !base.starts_with("https://"),
            base,
            bucket: bucket.to_owned(),
            region,
            credentials: Credentials::find(&profile, bucket)?,
            has_checksums: checksums.is_none_or(|when| !when.eq_ignore_ascii_case("when_required")),
        })
    }

    /// Returns a page of the list of keys that begin with `prefix`. `by_folder` ends it at the next slash.
    pub(crate) async fn page(
        &self,
        prefix: &str,
        by_folder: bool,
        (token, max): (Option<&str>, u32),
    ) -> Result<Page, CallError> {
        let mut parameters = Vec::new();
        parameters.extend(token.map(|token| ("continuation-token", token.to_owned())));
        if by_folder {
            parameters.push(("delimiter", "/".to_owned()));
        }
        parameters.push(("encoding-type", "url".to_owned()));
        parameters.push(("list-type", "2".to_owned()));
        parameters.push(("max-keys", max.to_string()));
        parameters.push(("prefix", prefix.to_owned()));
        let url = format!("{}{}", self.base, query(&parameters));
        let answer = self.send(&Call::new(Method::GET, url)).await?;
        page(&text(&answer.body)?)
    }

    /// Returns the attributes of an object, or none if it does not exist.
    pub(crate) async fn attributes(&self, key: &str) -> Result<Option<Attributes>, CallError> {
        match self.head(key).await {
            Err(error) if error.reason == Reason::Missing => Ok(None),
            // an answer without a body has no reason; a list has one, for which credentials are renewed
            Err(error) if !error.is_passing() => {
                self.page(key, false, (None, 1)).await?;
                match self.head(key).await {
                    Err(error) if error.reason == Reason::Missing => Ok(None),
                    found => found.map(Some),
                }
            }
            found => found.map(Some),
        }
    }

    async fn head(&self, key: &str) -> Result<Attributes, CallError> {
        let call = self.call(Method::HEAD, key, &[])?;
        let answer = self
            .send(&call.with("x-amz-checksum-mode", "ENABLED")?)
            .await?;
        let size = length(&answer.headers).ok_or_else(|| {
            CallError::new(
                Reason::Broken,
                "the store does not report the size of an object",
            )
        })?;
        Ok(attributes(&answer.headers, size))
    }

    /// Begins to read a range of an object of `size` bytes, or all of it. The object must still have this `ETag`. Returns
    /// the attributes in the answer, and the bytes as they come.
    pub(crate) async fn open_range(
        &self,
        key: &str,
        (range, size): (Option<(u64, u64)>, u64),
        etag: Option<&str>,
    ) -> Result<(Attributes, Chunks), CallError> {
        let mut call = self.call(Method::GET, key, &[])?;
        if let Some(range) = range {
            call = call.with("range", &ranges::header(range))?;
        } else {
            call = call.with("x-amz-checksum-mode", "ENABLED")?;
        }
        if let Some(etag) = etag {
            call = call.with("if-match", etag)?;
        }
        self.once(&call, move |request| async move {
            let (status, headers, chunks) = self.client.open(request, failure).await?;
            ranges::check((status, &headers), range, size)?;
            check_version(&headers, etag)?;
            Ok((attributes(&headers, size), chunks))
        })
        .await
    }

    /// Takes the next bytes of an object.
    pub(crate) async fn next_bytes(&self, chunks: &mut Chunks) -> Result<Option<Bytes>, CallError> {
        self.client.next(chunks).await
    }

    /// Returns the pauses between attempts.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        self.client.pauses()
    }

    /// Writes an object. The store compares the bytes with their checksum. Returns true if it reports an equal one.
    pub(crate) async fn write(
        &self,
        key: &str,
        bytes: Bytes,
        (stamp, condition): (Option<Stamp>, &Condition),
    ) -> Result<bool, CallError> {
        let crc = self.has_checksums.then(|| checksum::of(&bytes));
        let mut call = self.call(Method::PUT, key, &[])?;
        call = with_condition(with_stamp(call, stamp)?, condition)?;
        if let Some(crc) = crc {
            call = call.with("x-amz-checksum-crc64nvme", &checksum::encode(crc))?;
        }
        call.body = bytes;
        let answer = self.send(&call).await?;
        check_echo(&answer.headers, crc)
    }

    /// Copies an object within the store, if it still has this `ETag`.
    pub(crate) async fn copy(
        &self,
        (from, key): (&Self, &str),
        etag: Option<&str>,
        (to, condition): (&str, &Condition),
    ) -> Result<(), CallError> {
        let source = format!("/{}/{}", from.bucket, path(key));
        let mut call = self.call(Method::PUT, to, &[])?;
        call = call.with("x-amz-copy-source", &source)?;
        if let Some(etag) = etag {
            call = call.with("x-amz-copy-source-if-match", etag)?;
        }
        let answer = self.send(&with_condition(call, condition)?).await?;
        // the answer begins before the copy, and may end with an error
        let body = text(&answer.body)?;
        if body.contains("<Error>") {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            return Err(failure(status, &answer.headers, &body));
        }
        Ok(())
    }

    /// Removes an object. One that does not exist is removed, too.
    pub(crate) async fn remove(&self, key: &str) -> Result<(), CallError> {
        match self.send(&self.call(Method::DELETE, key, &[])?).await {
            Err(error) if error.reason != Reason::Missing => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns true if the other bucket is in the same store.
    pub(crate) fn is_with(&self, other: &Self) -> bool {
        let host = |base: &str| Url::parse(base).ok().map(|url| url.origin());
        let own = |base: &str| base.contains(".amazonaws.com");
        host(&self.base) == host(&other.base) || own(&self.base) && own(&other.base)
    }

    /// Returns a request about an object.
    pub(crate) fn call(
        &self,
        method: Method,
        key: &str,
        parameters: &[(&str, String)],
    ) -> Result<Call, CallError> {
        if !is_addressable(key) {
            let text = "its key has a part . or .., which no URL can name";
            return Err(CallError::new(Reason::Unsupported, text));
        }
        let url = format!("{}/{}{}", self.base, path(key), query(parameters));
        Ok(Call::new(method, url))
    }

    /// Sends a request, again if it fails for a reason that passes.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, CallError> {
        let mut pauses = self.client.pauses();
        loop {
            let sent = self.once(call, |request| {
                self.client.send(request, call.limit, failure)
            });
            match sent.await {
                Ok(answer) => return Ok(answer),
                Err(error) => retry(error, &mut pauses).await?,
            }
        }
    }

    /// Signs and sends a request once, and again with renewed credentials if the store says that they have expired.
    async fn once<T, F>(&self, call: &Call, send: impl Fn(HttpRequest) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>> + Send,
    {
        let credentials = self.credentials.current().await?;
        let sent = send(self.signed(call, credentials.as_deref())?).await;
        let has_expired = matches!(&sent, Err(error) if error.reason == Reason::Expired);
        if !has_expired || !self.credentials.renew(credentials.as_deref()).await? {
            return sent;
        }
        let credentials = self.credentials.current().await?;
        send(self.signed(call, credentials.as_deref())?).await
    }

    fn signed(
        &self,
        call: &Call,
        credentials: Option<&AwsCredential>,
    ) -> Result<HttpRequest, CallError> {
        let mut request = call.request()?;
        if let Some(credentials) = credentials {
            AwsAuthorizer::new(credentials, "s3", &self.region)
                .with_sign_payload(self.signs_bodies)
                .try_authorize(&mut request, None)
                .map_err(|error| CallError::of_store(&error))?;
        }
        Ok(request)
    }
}

/// Adds the modification time of the file.
pub(crate) fn with_stamp(call: Call, stamp: Option<Stamp>) -> Result<Call, CallError> {
    match stamp {
        Some(stamp) => call.with("x-amz-meta-mtime", &stamp.text()),
        None => Ok(call),
    }
}

/// Adds the condition under which the object is written.
pub(crate) fn with_condition(call: Call, condition: &Condition) -> Result<Call, CallError> {
    match condition {
        Condition::Always => Ok(call),
        Condition::Absent => call.with("if-none-match", "*"),
        Condition::Unchanged(etag) => call.with("if-match", etag),
    }
}

/// Fails if an answer has another version than this `ETag`. Some servers ignore the condition.
fn check_version(headers: &HeaderMap, etag: Option<&str>) -> Result<(), CallError> {
    let now = attributes(headers, 0).etag;
    if let (Some(known), Some(now)) = (etag, now)
        && known != now
    {
        let text = "the object has changed meanwhile";
        return Err(CallError::new(Reason::Condition, text));
    }
    Ok(())
}

/// Compares the checksum that the store has computed. Returns true if it reports an equal one.
pub(crate) fn check_echo(headers: &HeaderMap, crc: Option<u64>) -> Result<bool, CallError> {
    compare(crc, attributes(headers, 0).crc)
}

/// Compares the checksum of a store with that of the sent bytes. Returns true if both are known and equal.
pub(crate) fn compare(ours: Option<u64>, theirs: Option<u64>) -> Result<bool, CallError> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            let text = "the store has other bytes than were sent";
            Err(CallError::new(Reason::Integrity, text))
        }
        (ours, theirs) => Ok(ours.is_some() && theirs.is_some()),
    }
}

/// Returns a body as text.
pub(crate) fn text(body: &[u8]) -> Result<String, CallError> {
    let text = str::from_utf8(body).map(str::to_owned);
    text.map_err(|_| CallError::new(Reason::Broken, "the store answers no text"))
}

/// Returns an endpoint without a slash at its end.
fn checked(endpoint: &str) -> Result<String, Error> {
    let is_http = endpoint.starts_with("http://") || endpoint.starts_with("https://");
    if !is_http || Url::parse(endpoint).is_err() {
        let text = format!("{endpoint} is no URL: write http://HOST:PORT or https://HOST");
        return Err(CallError::new(Reason::Unsupported, text).during("cannot use AWS_ENDPOINT_URL"));
    }
    Ok(endpoint.trim_end_matches('/').to_owned())
}
