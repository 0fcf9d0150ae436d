//! SOCKS5 (RFC 1928) with names and passwords (RFC 1929).
//!
//! [`Socks`] is the server side of one handshake: it receives octets and answers, and has no
//! socket. A refused request is read to its end first, so that the program receives the reply.
//! SOCKS4 and HTTP are recognized, and the fault names them.

use std::mem;
use std::net::SocketAddr;

use lighthaul_base::codec::Reader;

use crate::credentials::{Credentials, VERSION as PASSWORD_VERSION};
use crate::handshake::{Handshake, HandshakeFault, Progress};
use crate::refusal::Refusal;
use crate::target::Target;

/// Server side of a SOCKS5 handshake.
#[derive(Clone, Debug)]
pub struct Socks {
    credentials: Option<Credentials>,
    step: Step,
    /// Received octets that were not handled yet: at most one message and the last piece.
    came: Vec<u8>,
    /// Replies to earlier messages of a program that sent all messages at once.
    owed: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Greeting,
    Password,
    Request,
    Over,
}

/// Result of one message.
enum Next {
    Short,
    Goes {
        reply: [u8; 2],
        step: Step,
        len: usize,
    },
    Wants {
        target: Target,
        len: usize,
    },
    Refused {
        reply: Vec<u8>,
        why: HandshakeFault,
    },
}

impl Socks {
    /// Creates a handshake. With `credentials`, the program must send them.
    pub const fn new(credentials: Option<Credentials>) -> Self {
        Self {
            credentials,
            step: Step::Greeting,
            came: Vec::new(),
            owed: Vec::new(),
        }
    }

    fn next(&self) -> Next {
        let next = match self.step {
            Step::Greeting => self.greeting(),
            Step::Password => self.password(),
            Step::Request => request(&self.came),
            Step::Over => Some(refuse(&[], HandshakeFault::AfterEnd)),
        };
        next.unwrap_or(Next::Short)
    }

    /// Handles the version and the methods: section 3 of RFC 1928.
    fn greeting(&self) -> Option<Next> {
        let version = *self.came.first()?;
        if version != VERSION {
            return Some(foreign(version));
        }
        let len = 2 + usize::from(*self.came.get(1)?);
        let methods = self.came.get(2..len)?;
        let (method, step) = match self.credentials {
            Some(_) => (BY_PASSWORD, Step::Password),
            None => (FREE, Step::Request),
        };
        if methods.contains(&method) {
            let reply = [VERSION, method];
            return Some(Next::Goes { reply, step, len });
        }
        let why = match self.credentials {
            Some(_) => HandshakeFault::NoCredentials,
            None => HandshakeFault::NoMethod,
        };
        Some(refuse(&[VERSION, NO_METHOD], why))
    }

    /// Handles the name and the password: section 2 of RFC 1929.
    fn password(&self) -> Option<Next> {
        let version = *self.came.first()?;
        if version != PASSWORD_VERSION {
            return Some(refuse(&[], HandshakeFault::PasswordRequest));
        }
        let behind_user = 2 + usize::from(*self.came.get(1)?);
        let len = behind_user + 1 + usize::from(*self.came.get(behind_user)?);
        let password = self.came.get(behind_user + 1..len)?;
        let user = &self.came[2..behind_user];
        let credentials = self.credentials.as_ref();
        Some(
            if credentials.is_none_or(|own| own.admits(user, password)) {
                let reply = [PASSWORD_VERSION, 0];
                let step = Step::Request;
                Next::Goes { reply, step, len }
            } else {
                refuse(&[PASSWORD_VERSION, 1], HandshakeFault::WrongCredentials)
            },
        )
    }
}

impl Handshake for Socks {
    fn take(&mut self, octets: &[u8]) -> Progress {
        self.came.extend_from_slice(octets);
        let mut reply = Vec::new();
        loop {
            match self.next() {
                Next::Short => return Progress::More { reply },
                Next::Goes {
                    reply: more,
                    step,
                    len,
                } => {
                    reply.extend(more);
                    self.step = step;
                    self.came.drain(..len);
                }
                Next::Wants { target, len } => {
                    self.step = Step::Over;
                    self.owed = reply;
                    let mut rest = mem::take(&mut self.came);
                    rest.drain(..len);
                    return Progress::Wants { target, rest };
                }
                Next::Refused { reply: more, why } => {
                    self.step = Step::Over;
                    self.came.clear();
                    reply.extend(more);
                    return Progress::Refused { reply, why };
                }
            }
        }
    }

    fn answer(&self, outcome: Result<SocketAddr, Refusal>) -> Vec<u8> {
        let mut out = self.owed.clone();
        match outcome {
            Ok(address) => {
                out.extend([VERSION, 0, 0]);
                Target::put_address(address, &mut out);
            }
            Err(refusal) => out.extend(failure(refusal.reply())),
        }
        out
    }
}

/// Handles a request: section 4 of RFC 1928. The whole request is read before a refusal, since closing a connection
/// with unread octets would discard the reply.
fn request(came: &[u8]) -> Option<Next> {
    let version = *came.first()?;
    if version != VERSION {
        return Some(refuse(&[], HandshakeFault::RequestVersion));
    }
    let command = *came.get(1)?;
    let address = came.get(3..)?;
    let Ok(len) = Target::read_len(address)? else {
        return Some(refuse(
            &failure(NO_SUCH_ADDRESS),
            HandshakeFault::AddressType,
        ));
    };
    let address = address.get(..len)?;
    Some(match (command, Target::read(&mut Reader::new(address))) {
        (CONNECT, Ok(target)) => Next::Wants {
            target,
            len: 3 + len,
        },
        (CONNECT, Err(_)) => {
            let reply = failure(Refusal::Unresolved.reply());
            refuse(&reply, HandshakeFault::InvalidTarget)
        }
        (BIND, _) => refuse(&failure(NO_SUCH_COMMAND), HandshakeFault::Bind),
        (UDP, _) => refuse(&failure(NO_SUCH_COMMAND), HandshakeFault::Udp),
        (command, _) => refuse(
            &failure(NO_SUCH_COMMAND),
            HandshakeFault::UnknownCommand(command),
        ),
    })
}

/// Returns the refusal of another protocol, with the remedy.
fn foreign(first: u8) -> Next {
    match first {
        4 => refuse(&NOT_SOCKS4, HandshakeFault::SpeaksSocks4),
        b'A'..=b'Z' => refuse(&[], HandshakeFault::SpeaksHttp),
        _ => refuse(&[], HandshakeFault::NotSocks),
    }
}

fn refuse(reply: &[u8], why: HandshakeFault) -> Next {
    Next::Refused {
        reply: reply.to_vec(),
        why,
    }
}

/// Returns an unsuccessful reply: section 6 of RFC 1928.
const fn failure(reply: u8) -> [u8; 10] {
    [VERSION, reply, 0, 1, 0, 0, 0, 0, 0, 0]
}

const VERSION: u8 = 5;
/// Authentication method without a password.
const FREE: u8 = 0;
/// Authentication method with name and password (RFC 1929).
const BY_PASSWORD: u8 = 2;
/// Reply that refuses all methods that the program offered.
const NO_METHOD: u8 = 0xff;
/// Commands.
const CONNECT: u8 = 1;
const BIND: u8 = 2;
const UDP: u8 = 3;
/// Replies without a [`Refusal`].
const NO_SUCH_COMMAND: u8 = 7;
const NO_SUCH_ADDRESS: u8 = 8;
/// Unsuccessful reply of SOCKS4.
const NOT_SOCKS4: [u8; 8] = [0, 91, 0, 0, 0, 0, 0, 0];

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: [u8; 3] = [5, 1, 0];
    const REQUEST: [u8; 10] = [5, 1, 0, 1, 203, 0, 113, 7, 0x13, 0x89];

    fn locked() -> Socks {
        Socks::new(Some("alice:secret".parse().unwrap()))
    }

    fn more(reply: &[u8]) -> Progress {
        Progress::More {
            reply: reply.to_vec(),
        }
    }

    fn wants(target: &str, rest: &[u8]) -> Progress {
        Progress::Wants {
            target: target.parse().unwrap(),
            rest: rest.to_vec(),
        }
    }

    fn refused(progress: Progress) -> (Vec<u8>, String) {
        let Progress::Refused { reply, why } = progress else {
            panic!("not refused: {progress:?}");
        };
        (reply, why.to_string())
    }

    #[test]
    fn request_names_the_target() {
        let mut socks = Socks::new(None);
        assert_eq!(socks.take(&GREETING), more(&[5, 0]));
        assert_eq!(socks.take(&REQUEST), wants("203.0.113.7:5001", b""));
        let bound = "10.0.0.1:258".parse().unwrap();
        assert_eq!(socks.answer(Ok(bound)), [5, 0, 0, 1, 10, 0, 0, 1, 1, 2]);
        let bound = "[::1]:258".parse().unwrap();
        assert_eq!(socks.answer(Ok(bound))[..4], [5, 0, 0, 4]);
    }

    #[test]
    fn names_are_resolved_by_the_egress() {
        let mut socks = Socks::new(None);
        socks.take(&GREETING);
        let request = [&[5, 1, 0, 3, 11][..], b"Example.org", &[1, 0xbb]].concat();
        assert_eq!(socks.take(&request), wants("example.org:443", b""));
    }

    #[test]
    fn messages_in_a_single_piece_are_answered_in_a_single_piece() {
        let mut socks = Socks::new(None);
        let octets = [&GREETING[..], &REQUEST, b"GET /"].concat();
        assert_eq!(socks.take(&octets), wants("203.0.113.7:5001", b"GET /"));
        let answer = socks.answer(Err(Refusal::Refused));
        assert_eq!(answer, [5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn missing_or_wrong_credentials_are_refused() {
        let mut socks = locked();
        assert_eq!(socks.take(&[5, 2, 0, 2]), more(&[5, 2]));
        assert_eq!(socks.take(b"\x01\x05alice\x06secret"), more(&[1, 0]));
        assert_eq!(socks.take(&REQUEST), wants("203.0.113.7:5001", b""));

        let mut socks = locked();
        socks.take(&[5, 1, 2]);
        assert_eq!(refused(socks.take(b"\x01\x05alice\x06secreT")).0, [1, 1]);
        assert_eq!(refused(locked().take(&GREETING)).0, [5, 0xff]);
        assert_eq!(refused(Socks::new(None).take(&[5, 1, 2])).0, [5, 0xff]);
        assert_eq!(refused(Socks::new(None).take(&[5, 0])).0, [5, 0xff]);
    }

    #[test]
    fn only_connect_is_supported() {
        for (request, reply, word) in [
            (&[5, 2, 0, 1, 1, 2, 3, 4, 0, 80][..], 7, "BIND"),
            (&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0], 7, "UDP"),
            (&[5, 9, 0, 1, 1, 2, 3, 4, 0, 80], 7, "command 9"),
            (&[5, 1, 0, 2, 1, 2, 3, 4, 0, 80], 8, "does not define"),
            (&[5, 1, 0, 1, 1, 2, 3, 4, 0, 0], 4, "invalid name or port"),
            (
                &[5, 1, 0, 3, 3, b'a', b' ', b'b', 0, 80],
                4,
                "invalid name or port",
            ),
        ] {
            let mut socks = Socks::new(None);
            socks.take(&GREETING);
            let (octets, why) = refused(socks.take(request));
            assert_eq!(octets, failure(reply), "{request:?}");
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn other_protocols_are_recognized() {
        for (first, word) in [
            (4, "SOCKS4"),
            (b'C', "HTTP"),
            (0x16, "does not speak SOCKS5"),
        ] {
            let (_, why) = refused(Socks::new(None).take(&[first, 1, 0, 80]));
            assert!(why.contains(word), "{why}");
        }
        assert_eq!(refused(Socks::new(None).take(&[4])).0[1], 91);
        assert_eq!(refused(Socks::new(None).take(&[5, 1, 0, 4])).0, [5, 0]);
    }

    #[test]
    fn each_refusal_has_a_reply() {
        let replies = Refusal::ALL.map(|refusal| Socks::new(None).answer(Err(refusal))[1]);
        assert_eq!(replies, [2, 3, 5, 6, 4, 1, 1, 1]);
    }
}
