//! Files of web servers, as sources only.

use http::{HeaderMap, Method, StatusCode};
use lighthaul_session::error::Error;

use crate::stores::bucket::answer::attributes;
use crate::stores::bucket::attributes::{Attributes, Piece};
use crate::stores::bucket::call_error::{CallError, Reason};
use crate::stores::bucket::client::{Call, Chunks, Client, Patience, expected};
use crate::stores::bucket::ranges;

/// A web server.
#[derive(Debug)]
pub(crate) struct Web {
    client: Client,
    /// URL of the server, without a path.
    base: String,
}

/// File of a web server, before it is read.
#[derive(Debug)]
pub(crate) struct WebFile {
    pub(crate) attributes: Attributes,
    /// True if ranges of the file can be read.
    pub(crate) has_ranges: bool,
}

impl Web {
    pub(crate) fn open(scheme: &str, host: &str, patience: Patience) -> Result<Self, Error> {
        Ok(Self {
            client: Client::new(patience)?,
            base: format!("{scheme}://{host}"),
        })
    }

    /// Asks for the first byte of a file, which also tells its size. A request for all attributes is refused by many
    /// servers if the URL is signed for reading.
    pub(crate) async fn look(&self, path: &str) -> Result<WebFile, CallError> {
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
            Client::retry(error, &mut pauses).await?;
        }
    }

    /// Reads a range, if the file is still the same.
    pub(crate) async fn read(
        &self,
        path: &str,
        range: (u64, u64),
        known: &Attributes,
    ) -> Result<Piece, CallError> {
        let mut call = self.call(path).with("range", &ranges::header(range))?;
        call.limit = range.1 - range.0;
        if let Some(etag) = known.etag.as_deref().filter(|etag| !etag.starts_with("W/")) {
            call = call.with("if-match", etag)?;
        }
        let mut pauses = self.client.pauses();
        loop {
            let sent = self.client.send(call.request()?, call.limit, failure).await;
            let checked = sent.and_then(|answer| {
                ranges::check(&answer, Some(range), known.size)?;
                let now = attributes(&answer.headers, known.size);
                if now.etag != known.etag || now.modified != known.modified {
                    return Err(CallError::new(
                        Reason::Condition,
                        "the file has changed meanwhile",
                    ));
                }
                Ok(answer.body)
            });
            match checked {
                Ok(bytes) => {
                    let attributes = known.clone();
                    return Ok(Piece { bytes, attributes });
                }
                Err(error) => Client::retry(error, &mut pauses).await?,
            }
        }
    }

    /// Reads a file as it comes, for servers that know no ranges.
    pub(crate) async fn stream(&self, path: &str) -> Result<Chunks, CallError> {
        let (_, _, chunks) = self
            .client
            .open(self.call(path).request()?, failure)
            .await?;
        Ok(chunks)
    }

    /// Takes the next bytes of a file that is read as it comes.
    pub(crate) async fn next(
        &self,
        chunks: &mut Chunks,
    ) -> Result<Option<bytes::Bytes>, CallError> {
        self.client.next(chunks).await
    }

    fn call(&self, path: &str) -> Call {
        Call::new(Method::GET, format!("{}/{path}", self.base))
    }
}

fn file(status: StatusCode, headers: &HeaderMap) -> WebFile {
    let range = headers
        .get("content-range")
        .and_then(|value| value.to_str().ok());
    let total = range.and_then(ranges::parse).map(|(_, size)| size);
    let has_ranges = status == StatusCode::PARTIAL_CONTENT && total.is_some();
    let size = total.unwrap_or_else(|| expected(headers));
    WebFile {
        attributes: attributes(headers, size),
        has_ranges,
    }
}

fn failure(status: StatusCode, _: &HeaderMap, _: &str) -> CallError {
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
