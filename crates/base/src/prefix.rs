//! Prefixes of IP addresses in CIDR notation (RFC 4632 and RFC 4291, section 2.3).
//!
//! A [`Prefix`] is the address block of a rule, a flow or a circuit. [`Prefix::host`] and
//! [`Prefix::all`] return the blocks that count as one host and as one site in quotas. All bits
//! after the prefix are zero, so two texts of one block compare equal. Except for IPv4-mapped
//! addresses, a prefix contains no address of the other family. Text that does not parse is
//! [`NotAPrefix`].

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use crate::unsigned;

/// Addresses with the same first bits, in CIDR notation `192.0.2.0/24` or `2001:db8::/48`; all other bits are zero.
///
/// An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) is the IPv4 address. So another notation cannot evade a rule or a
/// quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
        (len <= width(address)).then(|| Self {
            address: masked(address, len),
            len,
        })
    }

    /// Returns the block of prefix length `len` that contains `address`. The length of a mapped address counts from the
    /// beginning of the IPv4 address.
    pub fn of(address: IpAddr, len: u8) -> Self {
        let address = address.to_canonical();
        let address = masked(address, len.min(width(address)));
        Self { address, len }
    }

    /// Returns the first address.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the length in bits.
    pub const fn bits(self) -> u8 {
        self.len
    }

    /// Returns true if the prefix contains every address of its family.
    pub const fn is_all(self) -> bool {
        self.len == 0
    }

    /// Returns true if the prefix is a single address.
    pub const fn is_one(self) -> bool {
        self.len == width(self.address)
    }

    /// Returns true if the prefix contains `address`.
    pub fn contains(self, address: IpAddr) -> bool {
        Self::new(address.to_canonical(), self.len) == Some(self)
    }

    /// Returns true if the prefix contains all addresses of `other`.
    pub fn covers(self, other: Self) -> bool {
        self.len <= other.len && self.contains(other.address)
    }

    /// Returns the block that a single host can control: one IPv4 address (/32), or one IPv6 /64.
    pub fn host(address: IpAddr) -> Self {
        Self::all(address)[0]
    }

    /// Returns the blocks in which `address` is counted, from host to site: /32 and /24 for IPv4; /64, /56 and /48 for
    /// IPv6. Providers assign a site any of the three IPv6 lengths.
    pub fn all(address: IpAddr) -> [Self; 3] {
        let lens = match address.to_canonical() {
            IpAddr::V4(_) => [32, 24, 24],
            IpAddr::V6(_) => [64, 56, 48],
        };
        lens.map(|len| Self::of(address, len))
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
            Some((address, len)) => (address, Some(unsigned::number(len).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        Self::new(address, len.unwrap_or_else(|| width(address))).ok_or_else(wrong)
    }
}

/// Fault of the text of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAPrefix(String);

impl fmt::Display for NotAPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "{text:?} is not an address or prefix: write it as 10.0.0.0/8 or fd00::/8"
        )
    }
}

impl core::error::Error for NotAPrefix {}

/// Clears all bits of `address` but the first `len`.
fn masked(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Bits before the IPv4 address in an IPv4-mapped address.
const MAPPED: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

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
            let prefix = prefix(text);
            assert_eq!(prefix.to_string(), read);
            let parts = std::format!("{}/{}", prefix.address(), prefix.bits());
            assert_eq!(parts, read);
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
        assert!(prefix("0.0.0.0/0").covers(prefix("10.0.0.0/8")));
        assert!(!prefix("10.0.0.0/8").covers(prefix("0.0.0.0/0")));
        assert!(!prefix("10.0.0.0/8").covers(prefix("11.0.0.0/16")));
        assert!(!prefix("10.0.0.0/16").covers(prefix("10.0.0.0/8")));
    }

    #[test]
    fn prefix_of_length_zero_contains_all_addresses() {
        for (text, is_all) in [
            ("0.0.0.0/0", true),
            ("::/0", true),
            ("0.0.0.0/1", false),
            ("::", false),
        ] {
            assert_eq!(prefix(text).is_all(), is_all, "{text}");
        }
    }

    fn of(text: &str) -> [Prefix; 3] {
        Prefix::all(text.parse().unwrap())
    }

    #[test]
    fn addresses_in_the_same_network_have_the_same_host_and_site_prefix() {
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1")[0], of("2001:db8:0:1::1")[0]);
        assert_eq!(of("2001:db8::1")[1], of("2001:db8:0:ff::1")[1]);
        assert_ne!(of("2001:db8::1")[1], of("2001:db8:0:100::1")[1]);
        assert_eq!(of("2001:db8::1")[2], of("2001:db8:0:ffff::1")[2]);
        assert_ne!(of("2001:db8::1")[2], of("2001:db8:1::1")[2]);
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1")[0], of("10.0.0.2")[0]);
        assert_eq!(of("10.0.0.1")[1], of("10.0.0.2")[1]);
        assert_ne!(of("10.0.0.1")[2], of("10.0.1.1")[2]);
        assert_eq!(
            Prefix::of("10.1.2.3".parse().unwrap(), 0),
            Prefix::of("9.9.9.9".parse().unwrap(), 0)
        );
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
