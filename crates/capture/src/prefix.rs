//! Prefixes of IP addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses with the same first bits; all other bits are zero.
///
/// An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) is the IPv4 address, here as everywhere in this crate. So another
/// notation cannot evade a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// Creates the prefix with the first `len` bits of `address`. Returns nothing if the address has fewer bits.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        let (address, len) = match (address, address.to_canonical()) {
            (IpAddr::V6(_), mapped @ IpAddr::V4(_)) if len >= MAPPED => (mapped, len - MAPPED),
            (address, _) => (address, len),
        };
        if len > width(address) {
            return None;
        }
        let address = match address {
            IpAddr::V4(address) => {
                let kept = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                IpAddr::V4((u32::from(address) & kept).into())
            }
            IpAddr::V6(address) => {
                let kept = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                IpAddr::V6((u128::from(address) & kept).into())
            }
        };
        Some(Self { address, len })
    }

    /// Returns the first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the length in bits.
    pub const fn bits(&self) -> u8 {
        self.len
    }

    /// Returns true if the prefix contains every address of its family.
    pub const fn is_all(&self) -> bool {
        self.len == 0
    }

    /// Returns true if the prefix is a single address.
    pub const fn is_one(&self) -> bool {
        self.len == width(self.address)
    }

    /// Returns true if the prefix contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        Self::new(address, self.len) == Some(*self)
    }

    /// Returns true if the prefix contains all addresses of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        self.len <= other.len && self.contains(other.address)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl FromStr for Prefix {
    type Err = NotAPrefix;

    fn from_str(text: &str) -> Result<Self, NotAPrefix> {
        let wrong = || NotAPrefix(text.to_owned());
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(number(len).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        Self::new(address, len.unwrap_or_else(|| width(address))).ok_or_else(wrong)
    }
}

/// Fault of the text of a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address or prefix: write it as 10.0.0.0/8 or fd00::/8")]
pub struct NotAPrefix(String);

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Parses a number without a sign.
fn number(text: &str) -> Option<u8> {
    let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Bits before the IPv4 address in an IPv4-mapped address.
const MAPPED: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_are_parsed_and_masked() {
        for (text, read) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd12::1/8", "fd00::/8"),
            ("::1", "::1/128"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
            ("::ffff:10.1.2.3", "10.1.2.3/32"),
        ] {
            assert_eq!(prefix(text).to_string(), read);
        }
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10/8",
            "::/129",
            "a",
            "1.2.3.4/",
        ] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn families_are_separate_except_for_mapped_addresses() {
        let mapped: IpAddr = "::ffff:10.1.2.3".parse().unwrap();
        assert!(prefix("10.0.0.0/8").contains(mapped));
        assert!(!prefix("::/0").contains(mapped));
        assert!(!prefix("0.0.0.0/0").contains("::".parse().unwrap()));
        assert!(prefix("0.0.0.0/0").covers(&prefix("10.0.0.0/8")));
        assert!(!prefix("10.0.0.0/8").covers(&prefix("0.0.0.0/0")));
        assert!(!prefix("10.0.0.0/8").covers(&prefix("11.0.0.0/16")));
        assert!(!prefix("10.0.0.0/16").covers(&prefix("10.0.0.0/8")));
    }

    proptest! {
        #[test]
        fn prefix_contains_the_addresses_with_its_bits(one: u32, flip in 0_u32..32, len in 0_u8..=32) {
            let whole = Prefix::new(IpAddr::V4(one.into()), len).unwrap();
            let other = IpAddr::V4((one ^ (1 << (31 - flip))).into());
            prop_assert!(whole.contains(IpAddr::V4(one.into())));
            prop_assert_eq!(whole.contains(other), flip >= u32::from(len));
            prop_assert_eq!(whole.to_string().parse(), Ok(whole));
        }

        #[test]
        fn prefix_of_ipv6_contains_the_addresses_with_its_bits(one: u128, flip in 0_u32..128, len in 0_u8..=128) {
            let whole = Prefix::new(IpAddr::V6(one.into()), len).unwrap();
            let other = IpAddr::V6((one ^ (1 << (127 - flip))).into());
            prop_assert!(whole.contains(IpAddr::V6(one.into())));
            prop_assert_eq!(whole.contains(other), flip >= u32::from(len));
            prop_assert_eq!((whole.is_all(), whole.is_one()), (len == 0, len == 128));
            prop_assert_eq!(whole.to_string().parse(), Ok(whole));
        }
    }
}
