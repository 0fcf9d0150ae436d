//! Address blocks that count as one host or one site when quotas are applied.

use core::net::IpAddr;

/// Address block in CIDR notation, as in `192.0.2.0/24` or `2001:db8::/48`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// Returns the block of prefix length `len` that contains `address`. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn of(address: IpAddr, len: u8) -> Self {
        let address = match address.to_canonical() {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32)));
                IpAddr::V4((v4.to_bits() & mask.unwrap_or(0)).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len.min(128)));
                IpAddr::V6((v6.to_bits() & mask.unwrap_or(0)).into())
            }
        };
        Self { address, len }
    }

    /// Returns the first address of the block.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the block that a single host can control: one IPv4 address (/32), or one IPv6 /64.
    pub fn host(address: IpAddr) -> Self {
        Self::all(address)[0]
    }

    /// Returns the blocks that `address` counts in, from host to site: /32 and /24 for IPv4, and /64, /56 and /48 for
    /// IPv6. Providers assign a site any of the three IPv6 lengths.
    pub fn all(address: IpAddr) -> [Self; 3] {
        let lens = match address.to_canonical() {
            IpAddr::V4(_) => [32, 24, 24],
            IpAddr::V6(_) => [64, 56, 48],
        };
        lens.map(|len| Self::of(address, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> [Prefix; 3] {
        Prefix::all(text.parse().unwrap())
    }

    #[test]
    fn addresses_of_one_network_share_host_and_site_prefix() {
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
}
