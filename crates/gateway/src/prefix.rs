//! Addresses that begin alike.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The addresses whose first bits are those of one; what is behind those bits is zero.
///
/// An IPv4 address within IPv6 (`::ffff:10.0.0.1`) is the IPv4 address, here as everywhere in this crate, so that nobody
/// passes a rule by another spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// The addresses whose first `len` bits are those of `address`; nothing where it has not so many.
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

    /// Its first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits its addresses have in common.
    pub const fn bits(&self) -> u8 {
        self.len
    }

    /// Whether it is every address of its family.
    pub const fn is_all(&self) -> bool {
        self.len == 0
    }

    /// Returns whether it is a single address.
    pub const fn is_one(&self) -> bool {
        self.len == width(self.address)
    }

    /// Whether `address` is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        Self::new(address, self.len) == Some(*self)
    }

    /// Whether all addresses of `other` are among its own.
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

/// What was written is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address or prefix: write it as 10.0.0.0/8 or fd00::/8")]
pub struct NotAPrefix(String);

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// A number without the sign that `parse` takes.
fn number(text: &str) -> Option<u8> {
    let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// How many bits come before an IPv4 address within IPv6.
const MAPPED: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_are_read_and_cut() {
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
    fn families_do_not_mix_but_for_addresses_within_others() {
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
        fn a_prefix_has_the_addresses_whose_bits_agree(one: u32, flip in 0_u32..32, len in 0_u8..=32) {
            let whole = Prefix::new(IpAddr::V4(one.into()), len).unwrap();
            let other = IpAddr::V4((one ^ (1 << (31 - flip))).into());
            prop_assert!(whole.contains(IpAddr::V4(one.into())));
            prop_assert_eq!(whole.contains(other), flip >= u32::from(len));
            prop_assert_eq!(whole.to_string().parse(), Ok(whole));
        }

        #[test]
        fn prefix_of_ipv6_has_the_addresses_whose_bits_agree(one: u128, flip in 0_u32..128, len in 0_u8..=128) {
            let whole = Prefix::new(IpAddr::V6(one.into()), len).unwrap();
            let other = IpAddr::V6((one ^ (1 << (127 - flip))).into());
            prop_assert!(whole.contains(IpAddr::V6(one.into())));
            prop_assert_eq!(whole.contains(other), flip >= u32::from(len));
            prop_assert_eq!((whole.is_all(), whole.is_one()), (len == 0, len == 128));
            prop_assert_eq!(whole.to_string().parse(), Ok(whole));
        }
    }
}
