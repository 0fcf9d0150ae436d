//! Addresses that lead to the gateway's own host or its cloud provider, in all notations.
//!
//! `is_reserved` protects services that trust their host or network from sessions of other hosts.
//! It looks through IPv6 addresses that contain an IPv4 address: mapped, NAT64, 6to4 and Teredo.
//! Networks come from RFC 6890, RFC 5771, RFC 4291 and RFC 8215. Private networks (RFC 1918) are
//! not reserved, since they are usual targets. The rules of `target_rules` decide about all other
//! addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lighthaul_base::prefix::Prefix;

/// Returns true if only a rule with exactly this address can allow it.
///
/// These are the addresses of this host (`is_local`), and loopback, link-local, unspecified, multicast and broadcast
/// addresses. Cloud metadata services and IPv6 addresses that contain one of these are reserved, too.
pub(crate) fn is_reserved(address: IpAddr, is_local: impl Fn(IpAddr) -> bool) -> bool {
    let address = address.to_canonical();
    let embedded = embedded(address).map(IpAddr::V4);
    std::iter::once(address)
        .chain(embedded)
        .any(|address| is_special(address) || is_local(address))
}

fn is_special(address: IpAddr) -> bool {
    SPECIAL
        .iter()
        .filter_map(|(first, bits)| Prefix::new(*first, *bits))
        .any(|range| range.contains(address))
}

/// Returns the IPv4 address to which a translator or tunnel forwards packets for an IPv6 address.
const fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    let high_and_low = match address.segments() {
        // NAT64 (RFC 6052), IPv4-compatible (RFC 4291) and IPv4-translated addresses (RFC 2765)
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0 | 0xffff, 0, high, low] => {
            (high, low)
        }
        // 6to4 (RFC 3056)
        [0x2002, high, low, ..] => (high, low),
        // Teredo, which inverts the client's address (RFC 4380)
        [0x2001, 0, .., high, low] => (!high, !low),
        _ => return None,
    };
    let (high, low) = high_and_low;
    Some(Ipv4Addr::from_bits((high as u32) << 16 | low as u32))
}

/// Networks of RFC 6890, RFC 5771, RFC 4291 and RFC 8215, then metadata services that are not link-local.
const SPECIAL: [(IpAddr, u8); 15] = [
    (v4([0, 0, 0, 0]), 8),
    (v4([127, 0, 0, 0]), 8),
    (v4([169, 254, 0, 0]), 16),
    (v4([224, 0, 0, 0]), 4),
    (v4([255, 255, 255, 255]), 32),
    (v6([0; 8]), 128),
    (v6([0, 0, 0, 0, 0, 0, 0, 1]), 128),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0]), 10),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0]), 48),
    // Alibaba Cloud, Azure, Oracle Cloud, AWS and Google Cloud
    (v4([100, 100, 100, 200]), 32),
    (v4([168, 63, 129, 16]), 32),
    (v4([192, 0, 0, 192]), 32),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]), 128),
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]), 128),
];

const fn v4(octets: [u8; 4]) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_octets(octets))
}

const fn v6(segments: [u16; 8]) -> IpAddr {
    let mut bits = 0;
    let mut nth = 0;
    while nth < segments.len() {
        bits = bits << 16 | segments[nth] as u128;
        nth += 1;
    }
    IpAddr::V6(Ipv6Addr::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_link_local_and_metadata_are_reserved_in_all_notations() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.255.255",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "64:ff9b:1::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:100.100.100.200",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe:5::9",
            // Teredo: the client's address is 127.0.0.1
            "2001:0:1:2:3:4:80ff:fffe",
        ] {
            assert!(
                is_reserved(address.parse().unwrap(), |_| false),
                "{address}"
            );
        }
    }

    #[test]
    fn neighbors_of_reserved_addresses_are_not_reserved() {
        for address in [
            "1.0.0.0",
            "10.0.0.1",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "223.255.255.255",
            "240.0.0.1",
            "100.100.100.199",
            "100.100.100.201",
            "168.63.129.17",
            "192.0.0.193",
            "fd00:ec2::253",
            "fd00::1",
            "fec0::1",
            "fe7f::1",
            "2001:db8::1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:2::1",
            "2002:a00:1::",
        ] {
            assert!(
                !is_reserved(address.parse().unwrap(), |_| false),
                "{address}"
            );
        }
    }

    #[test]
    fn own_addresses_are_reserved_in_all_notations() {
        let own: IpAddr = "10.1.2.3".parse().unwrap();
        for (address, reserved) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("64:ff9b::10.1.2.3", true),
            ("2002:a01:203::1", true),
            // Teredo, with the client's address 10.1.2.3
            ("2001:0:1:2:3:4:f5fe:fdfc", true),
            ("2001:0:1:2:3:4:f5fe:fdfb", false),
            ("10.1.2.4", false),
            ("64:ff9b::10.1.2.4", false),
        ] {
            let is = is_reserved(address.parse().unwrap(), |one| one == own);
            assert_eq!(is, reserved, "{address}");
        }
    }
}
