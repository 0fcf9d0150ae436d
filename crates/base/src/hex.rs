//! Hexadecimal encoding of octets.

use alloc::string::String;
use alloc::vec::Vec;

/// Returns two lower-case digits for each octet, with leading zeros.
pub fn to_hex(octets: &[u8]) -> String {
    let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// Decodes pairs of hexadecimal digits, in lower or upper case. Returns `None` for any other text.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

fn digit(letter: u8) -> Option<u8> {
    let digit = char::from(letter).to_digit(16)?;
    u8::try_from(digit).ok()
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hex_keeps_leading_zeros_and_refuses_other_text() {
        assert_eq!(to_hex(&[0, 10, 0xff]), "000aff");
        assert_eq!(from_hex("000AfF"), Some(alloc::vec![0, 10, 0xff]));
        for text in ["0", "0g", "+1", "é"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn hex_round_trips(octets: Vec<u8>) {
            prop_assert_eq!(from_hex(&to_hex(&octets)), Some(octets));
        }
    }
}
