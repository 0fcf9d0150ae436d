//! Uploads in parts to S3. The store has the checksum of each part, and of the whole object.

use std::fmt::Write;

use bytes::Bytes;
use http::{Method, StatusCode};
use roxmltree::Document;

use crate::answer::{Named, document, failure};
use crate::attributes::{Completion, HeldPart, Stamp};
use crate::call_error::{CallError, Reason};
use crate::checksum;
use crate::s3::{S3, check_echo, compare, text, with_condition, with_stamp};

impl S3 {
    /// Begins an upload. Returns its name in the store.
    pub(crate) async fn begin(&self, key: &str, stamp: Option<Stamp>) -> Result<String, CallError> {
        let call = self.call(Method::POST, key, &[("uploads", String::new())])?;
        let mut call = with_stamp(call, stamp)?;
        if self.has_checksums {
            call = call.with("x-amz-checksum-algorithm", "CRC64NVME")?;
            call = call.with("x-amz-checksum-type", "FULL_OBJECT")?;
        }
        let answer = self.send(&call).await?;
        let body = text(&answer.body)?;
        let document = document(&body, "InitiateMultipartUploadResult")?;
        let id = document
            .root_element()
            .text_of("UploadId")
            .map(str::to_owned);
        id.ok_or_else(|| {
            CallError::new(Reason::Broken, "the store begins an upload without a name")
        })
    }

    /// Sends one part, which the store compares with its checksum.
    pub(crate) async fn send_part(
        &self,
        (key, id): (&str, &str),
        number: u32,
        bytes: Bytes,
    ) -> Result<HeldPart, CallError> {
        let parameters = [
            ("partNumber", number.to_string()),
            ("uploadId", id.to_owned()),
        ];
        let mut call = self.call(Method::PUT, key, &parameters)?;
        let crc = self.has_checksums.then(|| checksum::of(&bytes));
        if let Some(crc) = crc {
            call = call.with("x-amz-checksum-crc64nvme", &checksum::encode(crc))?;
        }
        let size = bytes.len() as u64;
        call.body = bytes;
        let answer = self.send(&call).await?;
        check_echo(&answer.headers, crc)?;
        let etag = answer
            .headers
            .get("etag")
            .and_then(|value| value.to_str().ok());
        let etag = etag.ok_or_else(|| {
            CallError::new(Reason::Broken, "the store took a part without an ETag")
        })?;
        Ok(HeldPart {
            number,
            size,
            etag: etag.to_owned(),
            crc,
        })
    }

    /// Returns the parts that the store has, or none if it does not know the upload.
    pub(crate) async fn parts(
        &self,
        key: &str,
        id: &str,
    ) -> Result<Option<Vec<HeldPart>>, CallError> {
        let mut held: Vec<HeldPart> = Vec::new();
        let mut marker = 0;
        loop {
            let parameters = [
                ("max-parts", "1000".to_owned()),
                ("part-number-marker", marker.to_string()),
                ("uploadId", id.to_owned()),
            ];
            let answer = match self.send(&self.call(Method::GET, key, &parameters)?).await {
                Err(error) if error.reason == Reason::Missing => return Ok(None),
                answer => answer?,
            };
            let body = text(&answer.body)?;
            let document = document(&body, "ListPartsResult")?;
            let root = document.root_element();
            let parts = root.children().filter(|node| node.has_tag_name_of("Part"));
            let parts = parts.filter_map(|node| {
                Some(HeldPart {
                    number: node.text_of("PartNumber")?.parse().ok()?,
                    size: node.text_of("Size")?.parse().ok()?,
                    etag: node.text_of("ETag")?.to_owned(),
                    crc: node.text_of("ChecksumCRC64NVME").and_then(checksum::decode),
                })
            });
            // a list that goes back would have no end
            let before = marker;
            for part in parts.filter(|part| part.number > before) {
                marker = marker.max(part.number);
                held.push(part);
            }
            if root.text_of("IsTruncated") != Some("true") || marker == before {
                return Ok(Some(held));
            }
        }
    }

    /// Completes the object from its parts, in order. Returns true if the store reports an equal checksum.
    pub(crate) async fn complete(
        &self,
        (key, id): (&str, &str),
        parts: &[HeldPart],
        Completion { crc, condition, .. }: Completion<'_>,
    ) -> Result<bool, CallError> {
        let mut body = String::from("<CompleteMultipartUpload>");
        for part in parts {
            let etag = part.etag.replace('"', "&quot;");
            write!(
                body,
                "<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag>",
                part.number
            )
            .ok();
            if let Some(crc) = part.crc.filter(|_| self.has_checksums) {
                let crc = checksum::encode(crc);
                write!(body, "<ChecksumCRC64NVME>{crc}</ChecksumCRC64NVME>").ok();
            }
            body.push_str("</Part>");
        }
        body.push_str("</CompleteMultipartUpload>");
        let mut call = self.call(Method::POST, key, &[("uploadId", id.to_owned())])?;
        if let Some(crc) = crc.filter(|_| self.has_checksums) {
            call = call.with("x-amz-checksum-crc64nvme", &checksum::encode(crc))?;
            call = call.with("x-amz-checksum-type", "FULL_OBJECT")?;
        }
        call = with_condition(call, condition)?;
        call.body = body.into();
        let answer = self.send(&call).await?;
        let body = text(&answer.body)?;
        if body.contains("<Error>") {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            return Err(failure(status, &answer.headers, &body));
        }
        self.check_whole(key, &body, crc).await
    }

    /// Compares the checksum of an object that was completed from parts, by the answer or a further request. Returns
    /// true if the store reports an equal one.
    async fn check_whole(
        &self,
        key: &str,
        answer: &str,
        crc: Option<u64>,
    ) -> Result<bool, CallError> {
        let parsed = document(answer, "CompleteMultipartUploadResult").ok();
        let root = parsed.as_ref().map(Document::root_element);
        let word = |name| root.and_then(|root| root.text_of(name).map(str::to_owned));
        let theirs = word("ChecksumCRC64NVME").and_then(|text| checksum::decode(&text));
        if crc.is_none() || theirs.is_some() {
            return compare(crc, theirs);
        }
        let etag = word("ETag");
        match self.attributes(key).await {
            // another program may have written an object meanwhile
            Ok(Some(there)) if etag.is_some() && there.etag == etag => compare(crc, there.crc),
            Err(error) if error.reason != Reason::Denied => Err(error),
            Ok(_) | Err(_) => Ok(false),
        }
    }

    /// Gives up an upload, whose parts the store removes.
    pub(crate) async fn abort(&self, key: &str, id: &str) -> Result<(), CallError> {
        let call = self.call(Method::DELETE, key, &[("uploadId", id.to_owned())])?;
        self.send(&call).await.map(|_| ())
    }
}
