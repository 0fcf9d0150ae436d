//! Ranges of bytes: their headers, and the check that an answer has the bytes that were asked for (RFC 9110, section 14).

use http::{HeaderMap, StatusCode};

use crate::call_error::{CallError, Reason};
use crate::client::length;

/// Returns the header `Range` of bytes from the first to before the second.
pub(crate) fn header((from, till): (u64, u64)) -> String {
    format!("bytes={from}-{}", till.saturating_sub(1))
}

/// Checks that the head of an answer announces this range of an object of `size` bytes, or all of it, and as many bytes.
pub(crate) fn check(
    (status, headers): (StatusCode, &HeaderMap),
    range: Option<(u64, u64)>,
    size: u64,
) -> Result<(), CallError> {
    let wanted = range.unwrap_or((0, size));
    if status == StatusCode::PARTIAL_CONTENT {
        let named = headers
            .get("content-range")
            .and_then(|value| value.to_str().ok());
        let found = named.and_then(parse);
        if found != Some((wanted, size)) {
            let text = format!(
                "the store sends the range {}, not {}-{} of {size} bytes",
                named.unwrap_or("without a name"),
                wanted.0,
                wanted.1.saturating_sub(1)
            );
            return Err(CallError::new(Reason::Broken, text));
        }
    } else if range.is_some_and(|range| range != (0, size)) {
        let text = "the store does not send ranges of its objects";
        return Err(CallError::new(Reason::Unsupported, text));
    }
    let wanted = wanted.1 - wanted.0;
    match length(headers) {
        Some(len) if len > wanted => {
            let text = format!("the store sends more than the {wanted} bytes that it should");
            Err(CallError::new(Reason::Broken, text))
        }
        Some(len) if len < wanted => {
            let text = format!("the store sends {len} of {wanted} bytes");
            Err(CallError::new(Reason::Network, text))
        }
        // bytes without a length are counted as they come
        Some(_) | None => Ok(()),
    }
}

/// Reads `bytes 0-7/100` as a range and a size.
pub(crate) fn parse(text: &str) -> Option<((u64, u64), u64)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (from, last) = range.split_once('-')?;
    let till = last.parse::<u64>().ok()?.checked_add(1)?;
    let (from, size) = (from.parse().ok()?, size.parse().ok()?);
    (from <= till && till <= size).then_some(((from, till), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_range_that_was_asked_for_is_accepted() {
        let answer = |status, range: &'static str, len: usize| {
            let mut headers = HeaderMap::new();
            headers.insert("content-range", range.parse().unwrap());
            headers.insert("content-length", len.into());
            (StatusCode::from_u16(status).unwrap(), headers)
        };
        let checked = |(status, headers): (StatusCode, HeaderMap), range| {
            check((status, &headers), range, 10).map_err(|error| error.reason)
        };
        let reason = |answer| checked(answer, Some((4, 8)));
        assert_eq!(reason(answer(206, "bytes 4-7/10", 4)), Ok(()));
        for (status, range, len, why) in [
            (206, "bytes 0-3/10", 4, Reason::Broken),
            (206, "bytes 4-7/11", 4, Reason::Broken),
            (206, "bytes 4-7/*", 4, Reason::Broken),
            (206, "bytes 4-7/10", 3, Reason::Network),
            (206, "bytes 4-7/10", 5, Reason::Broken),
            (200, "bytes 4-7/10", 4, Reason::Unsupported),
        ] {
            assert_eq!(reason(answer(status, range, len)), Err(why), "{range}");
        }
        assert_eq!(checked(answer(200, "", 10), None), Ok(()));
        assert_eq!(checked(answer(200, "", 9), None), Err(Reason::Network));
    }
}
