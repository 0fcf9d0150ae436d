//! Check for addresses of this host. It asks the kernel each time, since addresses change.
//!
//! [`is_local`] looks up the route to an address over rtnetlink. A route of type local, broadcast
//! or anycast ends at this host. Rules for targets use the answer to protect the services of the
//! gateway's own host. Therefore an address counts as local if the kernel does not answer within a
//! second. The same applies to errors, unless they mean that there is no route. [`read`] decodes the
//! answer, and never panics.

use std::net::IpAddr;
use std::time::Duration;

use rustix::io::{self, Errno};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use tracing::warn;

/// Returns true if the kernel delivers packets to `address` on this host, or does not say where.
pub fn is_local(address: IpAddr) -> bool {
    ask(address).unwrap_or_else(|error| {
        warn!("cannot ask the kernel for the route to {address}, so it is not used: {error}");
        true
    })
}

/// Looks up the route to `address` over rtnetlink (rtnetlink(7)).
fn ask(address: IpAddr) -> io::Result<bool> {
    let family = AddressFamily::NETLINK;
    // protocol zero is NETLINK_ROUTE
    let fd = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    // only the kernel may answer
    connect(&fd, &SocketAddrNetlink::new(0, 0))?;
    set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
    send(&fd, &request(address), SendFlags::empty())?;
    let mut reply = [0; REPLY_LEN];
    let (len, _) = recv(&fd, &mut reply[..], RecvFlags::empty())?;
    read(&reply[..len])
}

/// Builds a request for the route to `address`.
fn request(address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address.to_canonical() {
        IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec()),
    };
    let attribute_len = 4 + octets.len() as u16;
    let len = (HEADER_LEN + ROUTE_LEN) as u32 + u32::from(attribute_len);
    let mut out = Vec::new();
    out.extend(len.to_ne_bytes());
    out.extend(RTM_GETROUTE.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    // sequence number and port; each socket is used for one request
    out.extend([0; 8]);
    let mut route = [0; ROUTE_LEN];
    route[0] = family.as_raw() as u8;
    route[1] = octets.len() as u8 * 8;
    out.extend(route);
    out.extend(attribute_len.to_ne_bytes());
    out.extend(RTA_DST.to_ne_bytes());
    out.extend(octets);
    out
}

/// Decodes the kernel's answer; an address without a route is not local. Fails if the answer is
/// incomplete, or an error for another reason, such as a lack of memory.
pub fn read(reply: &[u8]) -> io::Result<bool> {
    let kind = reply.get(4..6).and_then(|octets| octets.try_into().ok());
    match kind.map(u16::from_ne_bytes) {
        Some(RTM_NEWROUTE) => {
            let kind = reply.get(HEADER_LEN + TYPE_AT).ok_or(Errno::BADMSG)?;
            Ok(matches!(*kind, RTN_LOCAL | RTN_BROADCAST | RTN_ANYCAST))
        }
        Some(NLMSG_ERROR) => {
            let error = reply.get(HEADER_LEN..HEADER_LEN + 4);
            let error = error.and_then(|octets| octets.try_into().ok());
            // the kernel sends the negated number of the error; zero would be a success
            let number = error.map_or(0, i32::from_ne_bytes).checked_neg();
            let number = number.filter(|number| (1..=ERRNO_MAX).contains(number));
            let error = number.map_or(Errno::BADMSG, Errno::from_raw_os_error);
            if NO_ROUTE.contains(&error) {
                Ok(false)
            } else {
                Err(error)
            }
        }
        _ => Err(Errno::BADMSG),
    }
}

/// Time limit for the kernel's answer, which is immediate unless its tables are being changed.
const PATIENCE: Duration = Duration::from_secs(1);
/// Enough for a route without metrics. The type comes first, and the rest may be cut off.
const REPLY_LEN: usize = 1024;
/// Lengths of `struct nlmsghdr` and `struct rtmsg`, and offset of `rtm_type`.
const HEADER_LEN: usize = 16;
const ROUTE_LEN: usize = 12;
const TYPE_AT: usize = 7;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
const RTN_LOCAL: u8 = 2;
const RTN_BROADCAST: u8 = 3;
const RTN_ANYCAST: u8 = 4;
/// Answers for an address without a route, and for a route of type unreachable (`fib_props` in
/// Linux). All other errors may be transient, and say nothing about the address.
const NO_ROUTE: [Errno; 2] = [Errno::NETUNREACH, Errno::HOSTUNREACH];
/// Largest number of an error (`MAX_ERRNO` in Linux).
const ERRNO_MAX: i32 = 4095;

#[cfg(test)]
mod tests {
    use super::*;
    use nix::ifaddrs::getifaddrs;
    use nix::sys::socket::SockaddrStorage;

    /// Addresses of all interfaces, as the C library lists them.
    fn listed() -> Vec<IpAddr> {
        let address = |address: SockaddrStorage| {
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        };
        let all = getifaddrs().unwrap().filter_map(|one| one.address);
        all.filter_map(address).collect()
    }

    #[test]
    fn every_interface_address_is_local() {
        let listed = listed();
        assert!(!listed.is_empty());
        for address in listed {
            assert!(is_local(address), "{address}");
        }
        assert!(
            is_local("127.9.9.9".parse().unwrap()),
            "all of 127/8 is local"
        );
    }

    #[test]
    fn other_addresses_are_not_local() {
        let listed = listed();
        for address in ["192.0.2.1", "198.51.100.7", "203.0.113.9", "2001:db8::1"] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(is_local(address), listed.contains(&address), "{address}");
        }
    }

    #[test]
    fn request_has_the_whole_address() {
        for (address, family, octets) in [
            ("192.0.2.1", 2, vec![192, 0, 2, 1]),
            ("::ffff:192.0.2.1", 2, vec![192, 0, 2, 1]),
            ("::1", 10, [[0; 15].as_slice(), &[1]].concat()),
        ] {
            let request = request(address.parse().unwrap());
            assert_eq!(request[..4], (request.len() as u32).to_ne_bytes());
            assert_eq!(request[HEADER_LEN], family);
            assert_eq!(
                usize::from(request[HEADER_LEN + 1]),
                octets.len() * 8,
                "bits of {address}"
            );
            assert!(request.ends_with(&octets));
        }
    }

    #[test]
    fn incomplete_answers_are_errors() {
        assert_eq!(read(&[]), Err(Errno::BADMSG));
        let mut route = [0; HEADER_LEN + ROUTE_LEN];
        route[4..6].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
        assert_eq!(read(&route[..HEADER_LEN + TYPE_AT]), Err(Errno::BADMSG));
        for (kind, own) in [(1, false), (2, true), (3, true), (4, true), (5, false)] {
            route[HEADER_LEN + TYPE_AT] = kind;
            assert_eq!(read(&route), Ok(own), "{kind}");
        }
        route[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert_eq!(
            read(&route),
            Err(Errno::BADMSG),
            "a success without a route"
        );
    }

    #[test]
    fn only_errors_about_a_missing_route_mean_not_local() {
        let answer = |error: i32| {
            let mut answer = [0; HEADER_LEN + 4];
            answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
            answer[HEADER_LEN..].copy_from_slice(&error.to_ne_bytes());
            read(&answer)
        };
        for missing in [Errno::NETUNREACH, Errno::HOSTUNREACH] {
            assert_eq!(answer(-missing.raw_os_error()), Ok(false), "{missing}");
        }
        for other in [Errno::NOMEM, Errno::NOBUFS, Errno::PERM, Errno::INVAL] {
            assert_eq!(answer(-other.raw_os_error()), Err(other), "{other}");
        }
        for malformed in [101, -4096, i32::MIN, i32::MAX] {
            assert_eq!(answer(malformed), Err(Errno::BADMSG), "{malformed}");
        }
    }
}
