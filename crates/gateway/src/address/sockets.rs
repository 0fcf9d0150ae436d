//! Which sockets the kernel still has at an address, whether or not somebody holds them.

use std::fs;
use std::io;
use std::net::Ipv4Addr;

/// Whether there is a connection with `address` at our end that has something to say.
pub(super) fn has_any(address: Ipv4Addr) -> io::Result<bool> {
    let v4 = fs::read_to_string("/proc/thread-self/net/tcp")?;
    // a kernel may know no IPv6
    let v6 = fs::read_to_string("/proc/thread-self/net/tcp6").unwrap_or_default();
    let lines = v4.lines().chain(v6.lines()).skip(1);
    Ok(lines
        .filter_map(parse)
        .any(|(at, state)| at == address && !QUIET.contains(&state)))
}

/// The local address of a socket, if it is one of IPv4, and the socket's state (`proc_net_tcp` of the kernel's documentation).
pub fn parse(line: &str) -> Option<(Ipv4Addr, u8)> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    let (address, _port) = local.split_once(':')?;
    // one of IPv6 ends with the one of IPv4 that it may stand for
    let word = u32::from_str_radix(address.get(address.len().checked_sub(8)?..)?, 16).ok()?;
    let address = Ipv4Addr::from(word.to_ne_bytes());
    Some((address, u8::from_str_radix(state, 16).ok()?))
}

/// `TIME_WAIT`, `CLOSE` and `LISTEN`.
const QUIET: [u8; 3] = [6, 7, 10];

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test is a world of its own")]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_seen_as_long_as_there_is_one() {
        // nobody else is there
        let address = Ipv4Addr::new(127, 83, 17, 5);
        assert!(!has_any(address).unwrap());
        let listener = TcpListener::bind((address, 0)).unwrap();
        assert!(!has_any(address).unwrap(), "a door is no connection");
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap();
        assert!(has_any(address).unwrap());
        drop((near, far));
        while has_any(address).unwrap() {
            lighthaul_io::host::wait::pause(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn lines_of_both_families_are_read() {
        let v4 = "   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000";
        assert_eq!(parse(v4), Some((Ipv4Addr::LOCALHOST, 10)));
        let v6 =
            " 3: 0000000000000000FFFF00006400000A:1F90 0000000000000000FFFF00003200000A:9C40 01 0";
        assert_eq!(parse(v6), Some((Ipv4Addr::new(10, 0, 0, 100), 1)));
        assert_eq!(parse("  sl  local_address rem_address   st"), None);
        assert_eq!(parse(""), None);
    }
}
