//! Handshake with the gateway: SOCKS5 of RFC 1928, with the names and passwords of RFC 1929.
//!
//! `shake` runs the handshake over a `Wire`, which is a socket or a test:
//!
//! ```text
//! methods -> chosen method [-> name, password -> verdict] -> CONNECT target -> reply
//! ```
//!
//! It reads exactly the reply and no octet more, since the next one belongs to the program.
//! Failures are values of `errno` that `connect` may return, so programs handle them as usual. It
//! sends addresses only: names are resolved before.

use std::net::{IpAddr, SocketAddr};

use libc::c_int;

/// Connection to the gateway. Failures are values of `errno`.
pub(crate) trait Wire {
    /// Sends all octets.
    fn send(&mut self, octets: &[u8]) -> Result<(), c_int>;
    /// Fills `room`, without reading further octets.
    fn receive(&mut self, room: &mut [u8]) -> Result<(), c_int>;
}

/// Makes the gateway connect to `target`. Sends the name and password if the gateway requires them and they are known.
pub(crate) fn shake(
    wire: &mut impl Wire,
    target: SocketAddr,
    credentials: Option<&(String, String)>,
) -> Result<(), c_int> {
    match credentials {
        Some(_) => wire.send(&[VERSION, 2, FREE, BY_PASSWORD])?,
        None => wire.send(&[VERSION, 1, FREE])?,
    }
    let mut method = [0; 2];
    wire.receive(&mut method)?;
    match (method, credentials) {
        ([VERSION, FREE], _) => {}
        ([VERSION, BY_PASSWORD], Some((name, password))) => tell(wire, name, password)?,
        // it requires a password, or is not a gateway
        _ => return Err(libc::EACCES),
    }
    let (request, len) = request(target);
    wire.send(&request[..len])?;
    let mut head = [0; 5];
    wire.receive(&mut head)?;
    let rest = match (head[0], head[1], head[3]) {
        (VERSION, 0, V4) => 4 + 2 - 1,
        (VERSION, 0, V6) => 16 + 2 - 1,
        (VERSION, 0, NAME) => usize::from(head[4]) + 2,
        (VERSION, reply, _) if reply > 0 => return Err(errno(reply)),
        _ => return Err(libc::ECONNRESET),
    };
    // the program does not need the address that the gateway reports, but must not read it as data
    wire.receive(&mut [0; 255 + 2][..rest])
}

/// Sends the name and password (RFC 1929, section 2).
fn tell(wire: &mut impl Wire, name: &str, password: &str) -> Result<(), c_int> {
    let mut said = vec![PASSWORD_VERSION];
    for part in [name, password] {
        said.push(u8::try_from(part.len()).map_err(|_| libc::EACCES)?);
        said.extend_from_slice(part.as_bytes());
    }
    wire.send(&said)?;
    let mut verdict = [0; 2];
    wire.receive(&mut verdict)?;
    if verdict == [PASSWORD_VERSION, 0] {
        Ok(())
    } else {
        Err(libc::EACCES)
    }
}

/// Returns a request to connect, and its length (RFC 1928, section 4).
fn request(target: SocketAddr) -> ([u8; REQUEST_MAX], usize) {
    let mut request = [0; REQUEST_MAX];
    request[..3].copy_from_slice(&[VERSION, CONNECT, 0]);
    let end = match target.ip().to_canonical() {
        IpAddr::V4(ip) => {
            request[3] = V4;
            request[4..8].copy_from_slice(&ip.octets());
            8
        }
        IpAddr::V6(ip) => {
            request[3] = V6;
            request[4..20].copy_from_slice(&ip.octets());
            20
        }
    };
    request[end..end + 2].copy_from_slice(&target.port().to_be_bytes());
    (request, end + 2)
}

/// Returns the `errno` for a reply of the gateway (RFC 1928, section 6).
const fn errno(reply: u8) -> c_int {
    match reply {
        2 => libc::EACCES,
        3 => libc::ENETUNREACH,
        4 => libc::EHOSTUNREACH,
        6 => libc::ETIMEDOUT,
        8 => libc::EAFNOSUPPORT,
        _ => libc::ECONNREFUSED,
    }
}

const VERSION: u8 = 5;
const FREE: u8 = 0;
const BY_PASSWORD: u8 = 2;
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const V4: u8 = 1;
const NAME: u8 = 3;
const V6: u8 = 4;
const REQUEST_MAX: usize = 4 + 16 + 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Gateway that sends a given reply.
    struct Script {
        says: Vec<u8>,
        heard: Vec<u8>,
    }

    impl Wire for Script {
        fn send(&mut self, octets: &[u8]) -> Result<(), c_int> {
            self.heard.extend_from_slice(octets);
            Ok(())
        }

        fn receive(&mut self, room: &mut [u8]) -> Result<(), c_int> {
            if self.says.len() < room.len() {
                return Err(libc::ECONNRESET);
            }
            room.copy_from_slice(&self.says[..room.len()]);
            self.says.drain(..room.len());
            Ok(())
        }
    }

    fn ask(target: &str, says: &[u8]) -> (Result<(), c_int>, Script) {
        ask_as(None, target, says)
    }

    fn ask_as(
        credentials: Option<(&str, &str)>,
        target: &str,
        says: &[u8],
    ) -> (Result<(), c_int>, Script) {
        let own = credentials.map(|(name, password)| (name.to_owned(), password.to_owned()));
        let says = says.to_vec();
        let mut script = Script {
            says,
            heard: Vec::new(),
        };
        let outcome = shake(&mut script, target.parse().unwrap(), own.as_ref());
        (outcome, script)
    }

    #[test]
    fn handshake_names_the_target_and_reads_only_the_reply() {
        for reply in [
            &[5, 0, 5, 0, 0, 1, 10, 0, 0, 1, 0, 80, 42][..],
            &[&[5, 0, 5, 0, 0, 4][..], &[0; 18], &[42]].concat(),
            &[5, 0, 5, 0, 0, 3, 2, b'a', b'b', 0, 80, 42],
            &[5, 0, 5, 0, 0, 3, 0, 0, 80, 42],
        ] {
            let (outcome, script) = ask("203.0.113.7:5001", reply);
            assert_eq!((outcome, script.says), (Ok(()), vec![42]), "{reply:?}");
            assert_eq!(
                script.heard,
                [5, 1, 0, 5, 1, 0, 1, 203, 0, 113, 7, 0x13, 0x89]
            );
        }
        let (_, script) = ask("[2001:db8::1]:80", &[5, 0]);
        assert_eq!(script.heard[3..9], [5, 1, 0, 4, 0x20, 0x01]);
        let (_, mapped) = ask("[::ffff:203.0.113.7]:80", &[5, 0]);
        assert_eq!(mapped.heard[6], V4);
    }

    #[test]
    fn credentials_are_sent_when_requested() {
        let reply = [5, 0, 0, 1, 10, 0, 0, 1, 0, 80];
        let own = Some(("al", "pw!"));
        let (outcome, script) =
            ask_as(own, "203.0.113.7:80", &[&[5, 2, 1, 0], &reply[..]].concat());
        assert_eq!(outcome, Ok(()));
        assert_eq!(script.heard[..4], [5, 2, 0, 2]);
        assert_eq!(script.heard[4..12], *b"\x01\x02al\x03pw!");
        let (outcome, script) = ask_as(own, "203.0.113.7:80", &[&[5, 0], &reply[..]].concat());
        assert_eq!((outcome, script.heard[4]), (Ok(()), VERSION));
        let (outcome, script) = ask_as(own, "203.0.113.7:80", &[5, 2, 1, 1]);
        assert_eq!((outcome, script.heard.len()), (Err(libc::EACCES), 12));
        assert_eq!(ask("203.0.113.7:80", &[5, 2]).0, Err(libc::EACCES));
    }

    #[test]
    fn refusal_maps_to_the_errno_of_the_kernel() {
        for (reply, errno) in [
            (1, libc::ECONNREFUSED),
            (2, libc::EACCES),
            (3, libc::ENETUNREACH),
            (4, libc::EHOSTUNREACH),
            (5, libc::ECONNREFUSED),
            (6, libc::ETIMEDOUT),
        ] {
            let says = [5, 0, 5, reply, 0, 1, 0, 0, 0, 0, 0, 0];
            assert_eq!(ask("203.0.113.7:80", &says).0, Err(errno), "{reply}");
        }
        for (says, errno) in [
            (&[5, 0xff][..], libc::EACCES),
            (b"HTTP/1.1 400", libc::EACCES),
            (&[5], libc::ECONNRESET),
            (&[5, 0, 5, 0, 0], libc::ECONNRESET),
            (&[5, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0], libc::ECONNRESET),
            (&[5, 0, 5, 0, 0, 9, 0, 0, 0, 0, 0, 0], libc::ECONNRESET),
        ] {
            assert_eq!(ask("203.0.113.7:80", says).0, Err(errno), "{says:?}");
        }
    }
}
