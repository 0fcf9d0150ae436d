//! Files of web servers, as sources only.
//!
//! Ranges belong to one version of a file only if the server sends a strong validator (RFC 9110, section 8.8.1). Other
//! files are read in one response.

use std::fmt::{self, Debug, Formatter};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_session::error::Error;

use crate::answer::attributes;
use crate::attributes::Attributes;
use crate::call_error::{CallError, Reason};
use crate::client::{Call, Chunks, Client, Patience, length, retry};
use crate::ranges;

/// A web server.
#[derive(Debug)]
pub struct Web {
    client: Client,
    /// URL of the server, without a path.
    base: String,
}

/// File of a web server, before it is read.
#[derive(Debug)]
pub struct WebFile {
    /// Attributes, as far as the server reports them.
    pub attributes: Attributes,
    /// True if the server reports the size.
    pub has_size: bool,
    /// True if all ranges can be read from one version of the file.
    pub has_ranges: bool,
}

/// File of a web server that is read in one response.
pub struct Download {
    /// Attributes, as far as the server reports them.
    pub attributes: Attributes,
    /// Size, unless the server sends chunks.
    pub size: Option<u64>,
    chunks: Chunks,
    /// Received bytes that were not returned yet.
    rest: Bytes,
}

impl Web {
    pub(crate) fn open(scheme: &str, host: &str, patience: Patience) -> Result<Self, Error> {
        Ok(Self {
            client: Client::of_web(patience)?,
            base: format!("{scheme}://{host}"),
        })
    }

    /// Asks for the first byte of a file, which also tells its size. A request for all attributes is refused by many
    /// servers if the URL is signed for reading.
    pub async fn look(&self, path: &str) -> Result<WebFile, CallError> {
        let call = self.call(path).with("range", "bytes=0-0")?;
        let mut pauses = self.client.pauses();
        loop {
            let error = match self.client.open(call.request()?, failure).await {
                Ok((status, headers, _)) => return Ok(file(status, &headers)),
                // of an empty file
                Err(error) if error.reason == Reason::Condition => {
                    return Ok(file(StatusCode::OK, &HeaderMap::new()));
                }
                Err(error) => error,
            };
            retry(error, &mut pauses).await?;
        }
    }

    /// Begins to read a range, if the file is still the same. Returns its bytes as they come.
    pub(crate) async fn open_range(
        &self,
        path: &str,
        range: (u64, u64),
        known: &Attributes,
    ) -> Result<Chunks, CallError> {
        let mut call = self.call(path).with("range", &ranges::header(range))?;
        if let Some(etag) = known.etag.as_deref().filter(|etag| is_strong(etag)) {
            call = call.with("if-match", etag)?;
        }
        let (status, headers, chunks) = self.client.open(call.request()?, failure).await?;
        ranges::check((status, &headers), Some(range), known.size)?;
        let now = attributes(&headers, known.size);
        if now.etag != known.etag || now.modified != known.modified {
            let text = "the file has changed meanwhile";
            return Err(CallError::new(Reason::Condition, text));
        }
        Ok(chunks)
    }

    /// Takes the next bytes of a file.
    pub(crate) async fn next_bytes(&self, chunks: &mut Chunks) -> Result<Option<Bytes>, CallError> {
        self.client.next(chunks).await
    }

    /// Begins to read a file as it comes, once.
    pub async fn stream(&self, path: &str) -> Result<Download, CallError> {
        let request = self.call(path).request()?;
        let (status, headers, chunks) = self.client.open(request, failure).await?;
        let coding = headers.get("transfer-encoding");
        let coding = coding.and_then(|value| value.to_str().ok());
        let is_chunked = coding.is_some_and(|coding| coding.to_lowercase().contains("chunked"));
        let size = length(&headers);
        if status != StatusCode::OK || size.is_none() && !is_chunked {
            let text = "the server tells neither its length nor its end, so a lost connection would go unnoticed";
            return Err(CallError::new(Reason::Broken, text));
        }
        Ok(Download {
            attributes: attributes(&headers, size.unwrap_or(0)),
            size,
            chunks,
            rest: Bytes::new(),
        })
    }

    /// Takes the next bytes of a file that is read as it comes.
    pub async fn next(&self, file: &mut Download) -> Result<Option<Bytes>, CallError> {
        if !file.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut file.rest)));
        }
        self.client.next(&mut file.chunks).await
    }

    /// Takes the next `len` bytes of a file that is read as it comes.
    pub async fn take(&self, file: &mut Download, len: u64) -> Result<Vec<u8>, CallError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let Some(mut chunk) = self.next(file).await? else {
                let text = "the file is shorter than the server reported; it may have changed";
                return Err(CallError::new(Reason::Condition, text));
            };
            let wanted = chunk.len().min(len - bytes.len());
            bytes.extend_from_slice(&chunk.split_to(wanted));
            file.rest = chunk;
        }
        Ok(bytes)
    }

    /// Returns the pauses between attempts.
    pub fn pauses(&self) -> impl Iterator<Item = std::time::Duration> + Send + use<> {
        self.client.pauses()
    }

    fn call(&self, path: &str) -> Call {
        Call::new(Method::GET, format!("{}/{path}", self.base))
    }
}

impl Debug for Download {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut download = f.debug_struct("Download");
        download.field("attributes", &self.attributes);
        download.field("size", &self.size).finish_non_exhaustive()
    }
}

fn file(status: StatusCode, headers: &HeaderMap) -> WebFile {
    let range = headers
        .get("content-range")
        .and_then(|value| value.to_str().ok());
    // the length in such a response is that of the range
    let is_range = status == StatusCode::PARTIAL_CONTENT;
    let size = if is_range {
        range.and_then(ranges::parse).map(|(_, size)| size)
    } else {
        length(headers)
    };
    let attributes = attributes(headers, size.unwrap_or(0));
    let tag = attributes.etag.as_deref();
    WebFile {
        has_size: size.is_some(),
        has_ranges: is_range && size.is_some() && tag.is_some_and(is_strong),
        attributes,
    }
}

/// Returns true if this `ETag` is strong: all bytes of two versions with it are equal.
fn is_strong(etag: &str) -> bool {
    etag.starts_with('"')
}

fn failure(status: StatusCode, headers: &HeaderMap, _: &str) -> CallError {
    let target = headers.get("location").filter(|_| status.is_redirection());
    if let Some(target) = target.and_then(|target| target.to_str().ok()) {
        // a query may be a signature
        let target = target.split('?').next().unwrap_or_default();
        let target = escape(target, LINE_MAX);
        let text = format!(
            "the server redirects to {target}, and this redirect is not followed: copy from there, or without --no-redirects if \
             it is no redirect from https:// to http://"
        );
        return CallError::new(Reason::Unsupported, text);
    }
    let reason = match status.as_u16() {
        404 | 410 => Reason::Missing,
        412 | 416 => Reason::Condition,
        401 | 403 => Reason::Denied,
        408 | 429 | 500 | 502..=504 => Reason::Busy,
        _ => Reason::Broken,
    };
    let text = if reason == Reason::Missing {
        "there is no such file".to_owned()
    } else if reason == Reason::Condition {
        "the file has changed meanwhile".to_owned()
    } else {
        format!("the server answers {status}")
    };
    CallError::new(reason, text)
}
