//! Reading of arbitrary octets as the answers of stores, for tests. Answers come from outside.

use http::{HeaderMap, HeaderValue, StatusCode};

use crate::attributes::Stamp;
use crate::{answer, checksum, ranges};

/// Reads octets as each kind of answer, and as the value of each header. None of it panics.
pub fn read(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    answer::page(&text).ok();
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(octets) {
        let names = [
            "etag",
            "last-modified",
            "x-amz-meta-mtime",
            "x-amz-checksum-crc64nvme",
        ];
        headers.extend(names.map(|name| (http::HeaderName::from_static(name), value.clone())));
    }
    answer::attributes(&headers, 0);
    answer::failure(StatusCode::BAD_REQUEST, &headers, &text);
    ranges::parse(&text);
    checksum::decode(&text);
    if let Some(stamp) = Stamp::parse(&text) {
        assert_eq!(Stamp::parse(&stamp.text()), Some(stamp));
    }
}
