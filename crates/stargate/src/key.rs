//! Numbers of domains, border points, requests and their parts.

use alloc::string::String;

/// Number of a domain, such as its autonomous system number (RFC 6793).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u32);

/// Number of a border point: a link between two domains, or an access port. NSI calls it a service termination point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// Correlation ID of a request: a UUID that the caller chooses and never uses again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationId(pub u128);

/// Number of a query, unique at its source domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId {
    /// Source domain.
    pub source: DomainId,
    /// Sequence number.
    pub number: u64,
}

/// Number of one reservation: one attempt of a request over one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Source domain.
    pub source: DomainId,
    /// Request.
    pub id: CorrelationId,
    /// Sequence number of the attempt.
    pub attempt: u8,
    /// Leg: one chain of domains. [`ROOT`] is the source domain itself.
    pub leg: u8,
}

impl Key {
    /// Returns the key of the source domain for the same attempt.
    #[must_use]
    pub const fn root(self) -> Self {
        self.with_leg(ROOT)
    }

    /// Returns the key of another leg of the same attempt.
    #[must_use]
    pub const fn with_leg(self, leg: u8) -> Self {
        Self { leg, ..self }
    }
}

/// Part of a path inside one domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// Border point at which the path enters.
    pub ingress: PortId,
    /// Border point at which the path leaves.
    pub egress: PortId,
}

/// Domain of a path, and the part inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// Number of the domain.
    pub domain: DomainId,
    /// Part of the path inside the domain.
    pub segment: Segment,
}

/// Leg number of the source domain.
pub const ROOT: u8 = u8::MAX;
/// Maximum number of domains in a path.
pub const HOPS_MAX: usize = 32;

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
