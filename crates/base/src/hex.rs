//! Octets as hexadecimal digits.

use alloc::string::String;
use alloc::vec::Vec;

/// Two lower-case digits for each octet, leading zeros included.
pub fn to_hex(octets: &[u8]) -> String {
    let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// The octets that `text` stands for, in digits of either case; nothing if it is not in pairs of digits.
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
    fn hexadecimal_keeps_its_zeros() {
        assert_eq!(to_hex(&[0, 10, 0xff]), "000aff");
        assert_eq!(from_hex("000AfF"), Some(alloc::vec![0, 10, 0xff]));
        for text in ["0", "0g", "+1", "é"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn octets_survive_hexadecimal(octets: Vec<u8>) {
            prop_assert_eq!(from_hex(&to_hex(&octets)), Some(octets));
        }
    }
}
