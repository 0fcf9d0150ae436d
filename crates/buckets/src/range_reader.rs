//! Reader of a range of an object, which returns the bytes as they come.
//!
//! After a failure that passes, it continues where it stopped. The condition on the `ETag` is part of each request, so
//! all bytes are of one version. Without an `ETag`, a failure after the first byte ends the reader.

use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

use bytes::Bytes;

use crate::attributes::{Attributes, Piece};
use crate::body::Body;
use crate::call_error::{CallError, Reason};
use crate::client::{Chunks, retry};
use crate::store::Bucket;

/// Reader of a range.
pub struct RangeReader {
    bucket: Bucket,
    key: String,
    known: Attributes,
    /// True if the range is the whole object.
    is_whole: bool,
    /// Offset of the next byte, and end of the range.
    at: u64,
    till: u64,
    /// Attributes in the first answer.
    attributes: Option<Attributes>,
    chunks: Option<Chunks>,
    pauses: Box<dyn Iterator<Item = Duration> + Send>,
    /// Offset from which all retries are available again.
    renews_at: u64,
    /// True if bytes have come.
    has_begun: bool,
}

impl RangeReader {
    /// Creates a reader of a range of an object with these attributes, or of all of it. Sends nothing.
    pub fn new(bucket: &Bucket, key: &str, range: Option<(u64, u64)>, known: &Attributes) -> Self {
        let (at, till) = range.unwrap_or((0, known.size));
        Self {
            pauses: bucket.pauses(),
            bucket: bucket.clone(),
            key: key.to_owned(),
            known: known.clone(),
            is_whole: range.is_none(),
            at,
            till,
            attributes: None,
            chunks: None,
            renews_at: at.saturating_add(RENEWAL),
            has_begun: false,
        }
    }

    /// Returns the next bytes, or none at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            let error = match self.step().await {
                Ok(chunk) => return Ok(chunk),
                Err(error) => error,
            };
            // what comes after a failure is the answer to another request
            self.chunks = None;
            if self.has_all() && error.is_passing() {
                return Ok(None);
            }
            if self.has_begun && self.known.etag.is_none() {
                return Err(error);
            }
            retry(error, &mut self.pauses).await?;
        }
    }

    /// Reads all bytes into memory.
    pub async fn all(mut self) -> Result<Piece, CallError> {
        let len = usize::try_from(self.till - self.at).unwrap_or(usize::MAX);
        let mut bytes = Body::with_room(len);
        while let Some(chunk) = self.next().await? {
            bytes.extend(&chunk);
        }
        Ok(Piece {
            bytes,
            attributes: self.into_attributes(),
        })
    }

    /// Returns the attributes in the first answer.
    pub fn into_attributes(self) -> Attributes {
        self.attributes.unwrap_or(self.known)
    }

    /// Returns true if all bytes of the range have come.
    fn has_all(&self) -> bool {
        self.at == self.till && self.attributes.is_some()
    }

    async fn step(&mut self) -> Result<Option<Bytes>, CallError> {
        let chunks = if let Some(chunks) = &mut self.chunks {
            chunks
        } else if self.has_all() {
            return Ok(None);
        } else {
            let is_first = self.is_whole && self.at == 0;
            let range = (!is_first).then_some((self.at, self.till));
            let (attributes, chunks) = self
                .bucket
                .open_range(&self.key, range, &self.known)
                .await?;
            self.attributes.get_or_insert(attributes);
            self.chunks.insert(chunks)
        };
        let left = self.till - self.at;
        let Some(chunk) = self.bucket.next_bytes(chunks).await? else {
            if left > 0 {
                // a connection that ends early is an accident of the network
                let text = format!("the store ends its answer {left} bytes too early");
                return Err(CallError::new(Reason::Network, text));
            }
            self.chunks = None;
            return Ok(None);
        };
        if chunk.len() as u64 > left {
            let text = "the store sends more bytes than it announced";
            return Err(CallError::new(Reason::Broken, text));
        }
        self.at += chunk.len() as u64;
        self.has_begun |= !chunk.is_empty();
        if self.at >= self.renews_at {
            self.pauses = self.bucket.pauses();
            self.renews_at = self.at.saturating_add(RENEWAL);
        }
        Ok(Some(chunk))
    }
}

impl Debug for RangeReader {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut reader = f.debug_struct("RangeReader");
        reader.field("key", &self.key).field("at", &self.at);
        reader.field("till", &self.till).finish_non_exhaustive()
    }
}

/// Bytes that must come before all retries are available again, so that their number stays limited.
const RENEWAL: u64 = 1 << 20;
