//! Answers of S3: XML documents, headers with attributes of objects, and errors.

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use lighthaul_base::escape::{LINE_MAX, escape};
use roxmltree::{Document, Node};

use crate::attributes::{Attributes, Listed, Page, Stamp};
use crate::call_error::{CallError, Reason};
use crate::checksum;

/// Parses a document whose root has this name.
pub(crate) fn document<'a>(body: &'a str, root: &str) -> Result<Document<'a>, CallError> {
    let parsed = Document::parse(body).ok();
    let found = parsed.filter(|document| document.root_element().has_tag_name_of(root));
    found.ok_or_else(|| {
        let text = format!("the store answers no {root}; is it an S3 server?");
        CallError::new(Reason::Broken, text)
    })
}

/// Comparison of names without their namespaces, which servers write differently.
pub(crate) trait Named {
    fn has_tag_name_of(&self, name: &str) -> bool;
    fn text_of(&self, name: &str) -> Option<&str>;
}

impl Named for Node<'_, '_> {
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.tag_name().name() == name
    }

    fn text_of(&self, name: &str) -> Option<&str> {
        let child = self.children().find(|child| child.has_tag_name_of(name));
        child?.text()
    }
}

/// Returns a page of a list.
pub(crate) fn page(body: &str) -> Result<Page, CallError> {
    let document = document(body, "ListBucketResult")?;
    let root = document.root_element();
    let is_encoded = root.text_of("EncodingType") == Some("url");
    let key = |text: &str| {
        if is_encoded {
            decoded(text)
        } else {
            text.to_owned()
        }
    };
    let mut page = Page::default();
    for node in root.children() {
        if node.has_tag_name_of("Contents") {
            let broken =
                || CallError::new(Reason::Broken, "the store lists an object without a size");
            let size = node.text_of("Size").and_then(|size| size.parse().ok());
            page.objects.push(Listed {
                key: key(node.text_of("Key").unwrap_or_default()),
                size: size.ok_or_else(broken)?,
                modified: node
                    .text_of("LastModified")
                    .and_then(time)
                    .unwrap_or_default(),
                etag: node.text_of("ETag").map(str::to_owned),
            });
        } else if node.has_tag_name_of("CommonPrefixes") {
            page.folders.extend(node.text_of("Prefix").map(key));
        }
    }
    if root.text_of("IsTruncated") == Some("true") {
        page.next = root.text_of("NextContinuationToken").map(str::to_owned);
        if page.next.is_none() {
            let text = "the store ends a list without saying how it continues";
            return Err(CallError::new(Reason::Broken, text));
        }
    }
    Ok(page)
}

/// Returns the attributes in the headers of an answer about an object of `size` bytes.
pub(crate) fn attributes(headers: &HeaderMap, size: u64) -> Attributes {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_whole = text("x-amz-checksum-type").is_none_or(|kind| kind == "FULL_OBJECT");
    Attributes {
        size,
        modified: text("last-modified").and_then(date).unwrap_or_default(),
        etag: text("etag").map(str::to_owned),
        stamp: text("x-amz-meta-mtime").and_then(Stamp::parse),
        crc: text("x-amz-checksum-crc64nvme")
            .filter(|_| is_whole)
            .and_then(checksum::decode),
        sha256: text("x-amz-checksum-sha256")
            .filter(|_| is_whole)
            .and_then(octets),
        md5: text("x-amz-meta-md5chksum")
            .and_then(octets)
            .or_else(|| md5_of_tag(headers)),
    }
}

/// Reads octets in base64.
fn octets<const LEN: usize>(text: &str) -> Option<[u8; LEN]> {
    BASE64.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// Returns the `ETag` if it is the MD5 of the object: it was written in one request, and no key of its own encrypts it.
fn md5_of_tag(headers: &HeaderMap) -> Option<[u8; 16]> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let encryption = text("x-amz-server-side-encryption");
    let has_key = encryption.is_some_and(|kind| kind.starts_with("aws:"))
        || headers.contains_key("x-amz-server-side-encryption-customer-algorithm");
    let digits = text("etag").filter(|_| !has_key)?.trim_matches('"');
    HEXLOWER_PERMISSIVE
        .decode(digits.as_bytes())
        .ok()?
        .try_into()
        .ok()
}

/// Returns the error of an answer without success.
pub(crate) fn failure(status: StatusCode, headers: &HeaderMap, body: &str) -> CallError {
    let document = Document::parse(body).ok();
    let root = document.as_ref().map(Document::root_element);
    let word = |name| root.and_then(|root| root.text_of(name).map(str::to_owned));
    let (code, message) = (word("Code").unwrap_or_default(), word("Message"));
    let reason = reason(status, &code);
    let region = headers
        .get("x-amz-bucket-region")
        .and_then(|value| value.to_str().ok());
    let text = match (code.as_str(), region) {
        ("RequestTimeTooSkewed", _) => "the clock of this host is wrong: correct it".to_owned(),
        ("ExpiredToken", _) => "the credentials have expired: renew them".to_owned(),
        ("NoSuchBucket", _) => "there is no such bucket".to_owned(),
        ("NoSuchKey", _) => "there is no such object".to_owned(),
        _ if reason == Reason::Missing && code.is_empty() => "there is no such object".to_owned(),
        _ if reason == Reason::Condition => "the object has changed meanwhile".to_owned(),
        (_, Some(region)) if status.is_redirection() => {
            format!("the bucket is in the region {region}: set AWS_REGION={region}")
        }
        _ if code.is_empty() => format!("the store answers {status}"),
        _ => {
            let message = message.unwrap_or_default();
            let text = format!("the store answers {} {code} {message}", status.as_u16());
            escape(text.trim_end(), LINE_MAX).into_owned()
        }
    };
    CallError::new(reason, text)
}

fn reason(status: StatusCode, code: &str) -> Reason {
    let busy = [
        "RequestTimeout",
        "SlowDown",
        "InternalError",
        "ServiceUnavailable",
        "ConditionalRequestConflict",
        "OperationAborted",
    ];
    // keys that were replaced, too
    let expired = [
        "ExpiredToken",
        "TokenRefreshRequired",
        "InvalidToken",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
    ];
    match (status.as_u16(), code) {
        (_, code) if expired.contains(&code) => Reason::Expired,
        (_, "BadDigest" | "XAmzContentChecksumMismatch" | "InvalidDigest") => Reason::Integrity,
        (404, _) => Reason::Missing,
        (412 | 304, _) => Reason::Condition,
        (401 | 403, _) => Reason::Denied,
        (501, _) => Reason::Unsupported,
        (status, code) if busy.contains(&code) || matches!(status, 408 | 429 | 500..=599) => {
            Reason::Busy
        }
        _ => Reason::Broken,
    }
}

/// Returns a time as in `2026-11-28T10:00:00.000Z`.
pub(crate) fn time(text: &str) -> Option<Stamp> {
    let time: Timestamp = text.parse().ok()?;
    Some(Stamp::of(time.as_second(), time.subsec_nanosecond()))
}

/// Returns a time as in `Sat, 28 Nov 2026 10:00:00 GMT`.
fn date(text: &str) -> Option<Stamp> {
    let time = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Stamp::of(time.as_second(), 0))
}

/// Returns the text without its percent signs. Octets that are no text are replaced, so that such a key fits nothing.
fn decoded(text: &str) -> String {
    // in lists, a blank is a plus
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        octets.push(match octet {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or(b'%'), rest.next().unwrap_or(b'%')];
                let digits = str::from_utf8(&digits).ok();
                let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                value.unwrap_or(b'%')
            }
            octet => octet,
        });
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_any_server_is_read() {
        let page = page(
            "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>n</NextContinuationToken>\
             <Contents><Key>a%2Bb+c%0Ad</Key><Size>7</Size><LastModified>2026-11-28T10:00:00.250Z</LastModified>\
             <ETag>&quot;x&quot;</ETag></Contents><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>",
        )
        .unwrap();
        assert_eq!(page.objects[0].key, "a+b c\nd");
        assert_eq!(page.objects[0].size, 7);
        assert_eq!(
            page.objects[0].modified,
            Stamp::of(1_795_860_000, 250_000_000)
        );
        assert_eq!(page.objects[0].etag.as_deref(), Some("\"x\""));
        assert_eq!(
            (page.folders, page.next),
            (vec!["p/".to_owned()], Some("n".to_owned()))
        );
    }

    #[test]
    fn list_that_makes_no_sense_is_refused() {
        for body in [
            "",
            "<html></html>",
            "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        ] {
            assert_eq!(page(body).unwrap_err().reason, Reason::Broken, "{body}");
        }
    }

    #[test]
    fn checksums_of_whole_objects_are_read() {
        let of = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            attributes(&headers, 9)
        };
        let tag = ("etag", "\"25f9e794323b453885f5181f1b624d0b\"");
        let md5 = [
            0x25, 0xf9, 0xe7, 0x94, 0x32, 0x3b, 0x45, 0x38, 0x85, 0xf5, 0x18, 0x1f, 0x1b, 0x62,
            0x4d, 0x0b,
        ];
        assert_eq!(of(&[tag]).md5, Some(md5));
        for other in [
            &[("etag", "\"25f9e794323b453885f5181f1b624d0b-2\"")][..],
            &[tag, ("x-amz-server-side-encryption", "aws:kms")],
            &[
                tag,
                ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            ],
            &[("etag", "\"x\"")],
            &[],
        ] {
            assert_eq!(of(other).md5, None, "{other:?}");
        }
        let aes = ("x-amz-server-side-encryption", "AES256");
        assert_eq!(of(&[tag, aes]).md5, Some(md5));
        let noted = ("x-amz-meta-md5chksum", "JfnnlDI7RTiF9RgfG2JNCw==");
        assert_eq!(of(&[("etag", "\"x-2\""), noted]).md5, Some(md5));
        let sha256 = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=";
        let whole = of(&[("x-amz-checksum-sha256", sha256)]);
        assert_eq!(
            whole.sha256.map(|octets| octets[..2].to_vec()),
            Some(vec![0x15, 0xe2])
        );
        let parts = of(&[
            ("x-amz-checksum-sha256", sha256),
            ("x-amz-checksum-type", "COMPOSITE"),
        ]);
        assert_eq!(parts.sha256, None);
    }

    #[test]
    fn errors_say_what_to_do() {
        let text = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            failure(status, &HeaderMap::new(), body)
        };
        let expired = text(400, "<Error><Code>ExpiredToken</Code></Error>");
        assert_eq!(expired.reason, Reason::Expired);
        assert!(text(503, "").is_passing() && text(500, "<Error/>").is_passing());
        assert_eq!(text(404, "").reason, Reason::Missing);
        assert_eq!(text(412, "").reason, Reason::Condition);
        let denied = text(
            403,
            "<Error><Code>AccessDenied</Code><Message>no\x0a</Message></Error>",
        );
        assert_eq!(denied.text, "the store answers 403 AccessDenied no");
    }
}
