//! Numbers written in digits alone: ports, lengths and counts in text of users and peers.
//!
//! [`str::parse`] also accepts a plus sign, so that `+80` would be a second notation of a port, and
//! rules that compare texts could be evaded. [`number`] accepts digits only.

use core::str::FromStr;

/// Parses a number of one or more decimal digits. Returns `None` for a sign, for any other
/// character, and for a number that does not fit.
pub fn number<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_consists_of_digits_only() {
        for (text, value) in [("0", 0), ("80", 80), ("0080", 80), ("65535", 65535)] {
            assert_eq!(number::<u16>(text), Some(value), "{text}");
        }
        for text in [
            "", "+80", "-80", " 80", "8_0", "0x50", "65536", "8.0", "\u{662}",
        ] {
            assert_eq!(number::<u16>(text), None, "{text}");
        }
    }
}
