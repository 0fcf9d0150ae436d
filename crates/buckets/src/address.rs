//! Addresses in HTTP: encoding of keys and queries.

use std::fmt::Write;

/// Returns a key as the path of a URL.
pub(crate) fn path(key: &str) -> String {
    encoded(key, true)
}

/// Returns a query as in `?a=b`, or nothing without parameters.
pub(crate) fn query(parameters: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (nth, (name, value)) in parameters.iter().enumerate() {
        let mark = if nth == 0 { '?' } else { '&' };
        write!(text, "{mark}{name}={}", encoded(value, false)).ok();
    }
    text
}

/// Returns true if a URL can name the key. Clients and servers resolve `.` and `..` in paths, which leads to another object.
pub(crate) fn is_addressable(key: &str) -> bool {
    !key.is_empty() && !key.split('/').any(|part| matches!(part, "." | ".."))
}

/// Returns the octets of `text`; all but letters, digits and `-._~` have percent signs.
fn encoded(text: &str, keeps_slashes: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric()
            || b"-._~".contains(&octet)
            || keeps_slashes && octet == b'/'
        {
            encoded.push(octet.into());
        } else {
            write!(encoded, "%{octet:02X}").ok();
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_queries_are_encoded() {
        assert_eq!(path("a b/ü?#%+"), "a%20b/%C3%BC%3F%23%25%2B");
        assert_eq!(
            query(&[("a", "x/y&z".to_owned()), ("b", String::new())]),
            "?a=x%2Fy%26z&b="
        );
        assert_eq!(query(&[]), "");
    }

    #[test]
    fn keys_that_would_name_another_object_are_not_addressable() {
        for key in ["", ".", "..", "a/../b", "a/.", "./a"] {
            assert!(!is_addressable(key), "{key}");
        }
        for key in ["a", "/a", "a//b", "a/", "..a", "a/b..", "..."] {
            assert!(is_addressable(key), "{key}");
        }
    }
}
