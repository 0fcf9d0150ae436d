//! Sockets of an address in the kernel, also sockets that no process holds.

use std::fs;
use std::io;
use std::net::Ipv4Addr;

/// Returns true if the kernel has a connection of `address` with data to deliver.
pub(super) fn has_any(address: Ipv4Addr) -> io::Result<bool> {
    let v4 = fs::read_to_string("/proc/thread-self/net/tcp")?;
    // the kernel may not support IPv6
    let v6 = fs::read_to_string("/proc/thread-self/net/tcp6").unwrap_or_default();
    let lines = v4.lines().chain(v6.lines()).skip(1);
    Ok(lines
        .filter_map(parse)
        .any(|(at, state)| at == address && !QUIET.contains(&state)))
}

/// Returns the local IPv4 address and the state of a socket (`proc_net_tcp` in the documentation of the kernel).
pub fn parse(line: &str) -> Option<(Ipv4Addr, u8)> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    let (address, _port) = local.split_once(':')?;
    // a mapped IPv6 address ends with the IPv4 address
    let word = u32::from_str_radix(address.get(address.len().checked_sub(8)?..)?, 16).ok()?;
    let address = Ipv4Addr::from(word.to_ne_bytes());
    Some((address, u8::from_str_radix(state, 16).ok()?))
}

/// `TIME_WAIT`, `CLOSE` and `LISTEN`.
const QUIET: [u8; 3] = [6, 7, 10];

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn existing_connection_is_found() {
        // no other process uses this address
        let address = Ipv4Addr::new(127, 83, 17, 5);
        assert!(!has_any(address).unwrap());
        let listener = TcpListener::bind((address, 0)).unwrap();
        assert!(!has_any(address).unwrap(), "a listener is not a connection");
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap();
        assert!(has_any(address).unwrap());
        drop((near, far));
        while has_any(address).unwrap() {
            lighthaul_io::host::wait::pause(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn lines_of_both_families_are_parsed() {
        let v4 = "   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000";
        assert_eq!(parse(v4), Some((Ipv4Addr::LOCALHOST, 10)));
        let v6 =
            " 3: 0000000000000000FFFF00006400000A:1F90 0000000000000000FFFF00003200000A:9C40 01 0";
        assert_eq!(parse(v6), Some((Ipv4Addr::new(10, 0, 0, 100), 1)));
        assert_eq!(parse("  sl  local_address rem_address   st"), None);
        assert_eq!(parse(""), None);
    }
}
