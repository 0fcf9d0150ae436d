//! Conversion between Rust's socket addresses and C's.

use std::mem::{offset_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// Returns the address of an IPv4 or IPv6 socket, or `None` for other families and truncated addresses.
///
/// # Safety
///
/// `address` is null or has `len` readable octets.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    let len = len as usize;
    if address.is_null() || len < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the family comes first and is there.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if len >= size_of::<sockaddr_in>() => {
            // SAFETY: the caller guarantees this many octets, and all values of them are valid addresses.
            let address = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some((ip, u16::from_be(address.sin_port)).into())
        }
        // the scope is optional: RFC 2133 had none, and the kernel accepts addresses without it
        libc::AF_INET6 if len >= offset_of!(sockaddr_in6, sin6_scope_id) => {
            // SAFETY: all zeros are a valid address.
            let mut whole: sockaddr_in6 = unsafe { zeroed() };
            let kept = len.min(size_of::<sockaddr_in6>());
            let (from, to) = (address.cast::<u8>(), (&raw mut whole).cast::<u8>());
            // SAFETY: both have this many octets, and one is our own.
            unsafe { from.copy_to_nonoverlapping(to, kept) };
            let ip = Ipv6Addr::from(whole.sin6_addr.s6_addr);
            let port = u16::from_be(whole.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, whole.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Address for a socket of a family, in C's form, and its length.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Address {
    v4: sockaddr_in,
    v6: sockaddr_in6,
}

impl Address {
    /// Returns `address` for a socket of `family`, or `None` if an IPv4 socket cannot reach an IPv6 address.
    pub(crate) fn new(address: SocketAddr, family: c_int) -> Option<(Self, socklen_t)> {
        if family == libc::AF_INET {
            return match address {
                SocketAddr::V4(address) => {
                    // SAFETY: all zeros are a valid address.
                    let mut v4: sockaddr_in = unsafe { zeroed() };
                    v4.sin_family = libc::AF_INET as libc::sa_family_t;
                    v4.sin_port = address.port().to_be();
                    v4.sin_addr.s_addr = u32::from(*address.ip()).to_be();
                    Some((Self { v4 }, size_of::<sockaddr_in>() as socklen_t))
                }
                SocketAddr::V6(_) => None,
            };
        }
        let ip = match address {
            SocketAddr::V4(address) => address.ip().to_ipv6_mapped(),
            SocketAddr::V6(address) => *address.ip(),
        };
        // SAFETY: all zeros are a valid address.
        let mut v6: sockaddr_in6 = unsafe { zeroed() };
        v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        v6.sin6_port = address.port().to_be();
        v6.sin6_addr.s6_addr = ip.octets();
        Some((Self { v6 }, size_of::<sockaddr_in6>() as socklen_t))
    }

    /// Form of the address in C.
    pub(crate) const fn as_ptr(&self) -> *const sockaddr {
        std::ptr::from_ref(self).cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_convert_to_c_and_back() {
        for (text, family, back) in [
            ("203.0.113.7:80", libc::AF_INET, Some("203.0.113.7:80")),
            (
                "203.0.113.7:80",
                libc::AF_INET6,
                Some("[::ffff:203.0.113.7]:80"),
            ),
            (
                "[2001:db8::1]:443",
                libc::AF_INET6,
                Some("[2001:db8::1]:443"),
            ),
            ("[2001:db8::1]:443", libc::AF_INET, None),
        ] {
            let made = Address::new(text.parse().unwrap(), family);
            // SAFETY: the address has the length that came with it.
            let read = made.and_then(|(address, len)| unsafe { read(address.as_ptr(), len) });
            assert_eq!(read, back.map(|back| back.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn truncated_address_is_refused() {
        let (address, len) = Address::new("[::1]:1".parse().unwrap(), libc::AF_INET6).unwrap();
        for (len, is_one) in [
            (0, false),
            (1, false),
            (2, false),
            (23, false),
            (24, true),
            (len, true),
        ] {
            // SAFETY: the address has no less octets than that.
            let read = unsafe { read(address.as_ptr(), len) };
            assert_eq!(read.is_some(), is_one, "{len}");
        }
        // SAFETY: null has no octets.
        assert!(unsafe { read(std::ptr::null(), 0) }.is_none());
    }
}
