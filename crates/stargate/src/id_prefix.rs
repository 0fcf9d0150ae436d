//! First digits of correlation IDs, as people type them.

use alloc::string::String;

use crate::key::CorrelationId;

/// First hexadecimal digits of correlation IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdPrefix {
    value: u128,
    /// Number of bits behind the digits, less than 128.
    rest: u32,
}

impl IdPrefix {
    /// Returns the prefix with the digits of `text`; dashes are ignored. Returns `None` for none, for more than 32, and
    /// for other characters.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|one| *one != '-').take(33).collect();
        let is_hex = digits.bytes().all(|one| one.is_ascii_hexdigit());
        if digits.is_empty() || digits.len() > 32 || !is_hex {
            return None;
        }
        let rest = 128 - 4 * digits.len() as u32;
        let value = u128::from_str_radix(&digits, 16).ok()?;
        Some(Self { value, rest })
    }

    /// Returns true if an ID begins with the prefix.
    pub const fn begins(self, id: CorrelationId) -> bool {
        id.0 >> self.rest == self.value
    }
}

impl From<CorrelationId> for IdPrefix {
    /// Returns the whole ID.
    fn from(id: CorrelationId) -> Self {
        Self {
            value: id.0,
            rest: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_selects_the_ids_that_begin_with_its_digits() {
        let id = CorrelationId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        let begins = |text: &str| IdPrefix::parse(text).map(|one| one.begins(id));
        let whole = "01234567-89ab-cdef-0011-223344556677";
        for length in 1..=whole.len() {
            assert_eq!(begins(&whole[..length]), Some(true), "{length}");
        }
        for other in ["1", "01235", "0123456789abcdef0011223344556678"] {
            assert_eq!(begins(other), Some(false), "{other}");
        }
        assert_eq!(begins("012345-67-89AB"), Some(true));
        assert!(IdPrefix::from(id).begins(id));
        assert!(!IdPrefix::from(id).begins(CorrelationId(1)));
        for wrong in ["", "-", "zz", "+1", &"0".repeat(33)] {
            assert_eq!(begins(wrong), None, "{wrong}");
        }
    }
}
