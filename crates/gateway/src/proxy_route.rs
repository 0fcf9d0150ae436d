//! Sessions of programs that use a gateway as a SOCKS5 proxy (RFC 1928): the client side.
//!
//! ```no_run
//! use std::io::Write;
//!
//! use lighthaul_gateway::proxy_route::{ProxyError, ProxyRoute};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let route = ProxyRoute {
//!     gateway: "127.0.0.1:1080".parse()?,
//!     target: "far.example.org:80".parse()?,
//! };
//! let mut session = route.open()?;
//! session.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
//! # Ok(())
//! # }
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_capture::credentials::VERSION as PASSWORD_VERSION;
use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::target::Target;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_io::net::tcp;

use crate::proxy_address::ProxyAddress;

/// Route to a target through a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRoute {
    /// Gateway near the program.
    pub gateway: ProxyAddress,
    /// Target. The gateway near the target resolves its name.
    pub target: Target,
}

/// Reason why the gateway opened no session.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The gateway cannot be reached, or the user has interrupted.
    #[error(transparent)]
    Io(#[from] World),
    /// The gateway refuses the target.
    #[error("cannot reach {target} through the gateway at {gateway}: {why}")]
    Refused {
        /// Gateway.
        gateway: Target,
        /// Target.
        target: Target,
        /// Reason of the refusal.
        why: Refusal,
    },
    /// The gateway needs a name and a password.
    #[error("the gateway at {0} requires a name and a password: write NAME:PASSWORD@{0}")]
    PasswordRequired(Target),
    /// The name or the password is wrong.
    #[error("the gateway at {0} rejects the name or the password")]
    WrongPassword(Target),
    /// The server does not speak SOCKS5.
    #[error(
        "the server at {0} does not speak SOCKS5: is it the port of `lighthaul gateway --socks`?"
    )]
    NotSocks(Target),
    /// The gateway did not answer in time.
    #[error("the gateway at {0} did not answer in time")]
    TimedOut(Target),
    /// The gateway closed the connection too early.
    #[error("the gateway at {0} closed the connection before the target was reached")]
    Closed(Target),
}

impl ProxyRoute {
    /// Opens a session to the target: the stream carries its bytes. The gateways and the target get half a minute.
    pub fn open(&self) -> Result<TcpStream, ProxyError> {
        self.open_within(TIMEOUT)
    }

    fn open_within(&self, timeout: Duration) -> Result<TcpStream, ProxyError> {
        let Target { host, port } = &self.gateway.address;
        let tcp = tcp::connect_to(&["lighthaul gateway --socks"], &host.to_string(), *port)?;
        let clock = Clock::start();
        let until = clock.now() + timeout;
        let exchange = Exchange {
            gateway: &self.gateway.address,
            tcp: &tcp,
            clock,
            until,
        };
        self.ask(&exchange)?;
        // the session has timeouts of its own
        tcp.set_read_timeout(None)
            .and_then(|()| tcp.set_write_timeout(None))
            .map_err(|error| World::world("setting up the connection", error))?;
        Ok(tcp)
    }

    fn ask(&self, exchange: &Exchange<'_>) -> Result<(), ProxyError> {
        let gateway = &self.gateway.address;
        self.enter(exchange)?;
        let mut request = vec![VERSION, CONNECT, 0];
        self.target.put(&mut request);
        exchange.send(&request)?;
        let mut reply = [0; 2];
        exchange.receive(&mut reply)?;
        match reply {
            [VERSION, 0] => {}
            [VERSION, why] => {
                return Err(ProxyError::Refused {
                    gateway: gateway.clone(),
                    target: self.target.clone(),
                    why: Refusal::of_reply(why),
                });
            }
            _ => return Err(ProxyError::NotSocks(gateway.clone())),
        }
        // the local address at the target is not used
        let mut from = [0; 3];
        exchange.receive(&mut from)?;
        let Some(Ok(len)) = Target::read_len(&from[1..]) else {
            return Err(ProxyError::NotSocks(gateway.clone()));
        };
        exchange.receive(&mut vec![0; len.saturating_sub(2)])
    }

    /// Negotiates the method, and sends the credentials if necessary.
    fn enter(&self, exchange: &Exchange<'_>) -> Result<(), ProxyError> {
        let ProxyAddress {
            address,
            credentials,
        } = &self.gateway;
        match credentials {
            Some(_) => exchange.send(&[VERSION, 2, FREE, BY_PASSWORD])?,
            None => exchange.send(&[VERSION, 1, FREE])?,
        }
        let mut method = [0; 2];
        exchange.receive(&mut method)?;
        match (method, credentials) {
            ([VERSION, FREE], _) => return Ok(()),
            ([VERSION, BY_PASSWORD], Some(credentials)) => {
                let mut said = Vec::new();
                credentials.put(&mut said);
                exchange.send(&said)?;
            }
            ([VERSION, NO_METHOD], None) => {
                return Err(ProxyError::PasswordRequired(address.clone()));
            }
            _ => return Err(ProxyError::NotSocks(address.clone())),
        }
        let mut verdict = [0; 2];
        exchange.receive(&mut verdict)?;
        match verdict {
            [PASSWORD_VERSION, 0] => Ok(()),
            [PASSWORD_VERSION, _] => Err(ProxyError::WrongPassword(address.clone())),
            _ => Err(ProxyError::NotSocks(address.clone())),
        }
    }
}

/// Handshake with a time limit.
struct Exchange<'a> {
    gateway: &'a Target,
    tcp: &'a TcpStream,
    clock: Clock,
    until: Instant,
}

impl Exchange<'_> {
    /// Sends a few octets, for which a new socket has buffer.
    fn send(&self, octets: &[u8]) -> Result<(), ProxyError> {
        let mut tcp = self.tcp;
        tcp.write_all(octets).map_err(|error| self.failed(&error))
    }

    /// Fills `buffer`, and reads no further octet.
    fn receive(&self, buffer: &mut [u8]) -> Result<(), ProxyError> {
        let mut tcp = self.tcp;
        let mut received = 0;
        while received < buffer.len() {
            self.wait()?;
            match tcp.read(&mut buffer[received..]) {
                Ok(0) => return Err(self.failed(&ErrorKind::UnexpectedEof.into())),
                Ok(count) => received += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(())
    }

    /// Waits until the socket has data.
    fn wait(&self) -> Result<(), ProxyError> {
        loop {
            interrupt::check()?;
            let now = self.clock.now();
            if now >= self.until {
                return Err(self.failed(&ErrorKind::TimedOut.into()));
            }
            let mut watches = [Watch::read(self.tcp.as_raw_fd())];
            wait(
                self.clock,
                &mut watches,
                self.until.min(now + CHECK_INTERVAL),
            )
            .map_err(|error| World::world("waiting for the gateway", error))?;
            if watches[0].readable {
                return Ok(());
            }
        }
    }

    fn failed(&self, error: &io::Error) -> ProxyError {
        let slow = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
        if slow {
            ProxyError::TimedOut(self.gateway.clone())
        } else {
            ProxyError::Closed(self.gateway.clone())
        }
    }
}

const VERSION: u8 = 5;
/// Authentication method without a password.
const FREE: u8 = 0;
/// Authentication method with name and password (RFC 1929).
const BY_PASSWORD: u8 = 2;
/// Reply of a server that accepts no offered method.
const NO_METHOD: u8 = 0xff;
/// Command that opens a connection.
const CONNECT: u8 = 1;
/// Time for gateways and target, equal to that of `wrap`.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of checks for an interruption.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::thread::{self, JoinHandle};

    use lighthaul_capture::handshake::{Handshake, Progress};
    use lighthaul_capture::socks::Socks;

    use super::*;

    /// Starts a gateway that handles its only client with `answer`.
    fn gateway(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> (Target, JoinHandle<()>) {
        let listener = tcp::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let (mut tcp, _) = listener.accept().unwrap();
            tcp.set_read_timeout(Some(TIMEOUT)).unwrap();
            answer(&mut tcp);
        });
        (address.try_into().unwrap(), thread)
    }

    /// Handles a SOCKS5 handshake as a gateway with this result. Returns the target.
    fn serve(
        tcp: &mut TcpStream,
        mut socks: Socks,
        outcome: Result<SocketAddr, Refusal>,
    ) -> Option<Target> {
        loop {
            let mut octets = [0; 3];
            let count = tcp.read(&mut octets).unwrap();
            match socks.take(&octets[..count]) {
                Progress::More { reply } => tcp.write_all(&reply).unwrap(),
                Progress::Refused { reply, .. } => {
                    tcp.write_all(&reply).unwrap();
                    return None;
                }
                Progress::Wants { target, .. } => {
                    let reply = socks.answer(outcome);
                    tcp.write_all(&reply[..5]).unwrap();
                    // a refused client may have left
                    tcp.write_all(&reply[5..]).ok();
                    return Some(target);
                }
            }
        }
    }

    fn route(gateway: Target, target: &str) -> ProxyRoute {
        let (gateway, target) = (gateway.into(), target.parse().unwrap());
        ProxyRoute { gateway, target }
    }

    #[test]
    fn session_begins_after_the_handshake() {
        for (target, from) in [
            ("192.0.2.7:5001", "10.0.0.1:258"),
            ("far.example.org:80", "[2001:db8::1]:258"),
            ("[2001:db8::7]:1", "0.0.0.0:0"),
        ] {
            let wanted: Target = target.parse().unwrap();
            let (gateway, thread) = gateway(move |tcp| {
                let outcome = Ok(from.parse().unwrap());
                assert_eq!(serve(tcp, Socks::new(None), outcome), Some(wanted));
                tcp.write_all(b"welcome").unwrap();
                let mut said = [0; 6];
                tcp.read_exact(&mut said).unwrap();
                assert_eq!(&said, b"thanks");
            });
            let mut session = route(gateway, target).open().unwrap();
            let mut received = [0; 7];
            session.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"welcome");
            session.write_all(b"thanks").unwrap();
            thread.join().unwrap();
        }
    }

    #[test]
    fn refusal_of_the_gateway_is_reported() {
        for refusal in Refusal::ALL {
            let (gateway, thread) = gateway(move |tcp| {
                serve(tcp, Socks::new(None), Err(refusal));
            });
            let error = route(gateway, "192.0.2.7:1").open().unwrap_err();
            thread.join().unwrap();
            let ProxyError::Refused { why, .. } = &error else {
                panic!("{refusal:?} became {error:?}");
            };
            // SOCKS5 has no reply for a busy or refused gateway
            let has_word = !matches!(refusal, Refusal::Busy | Refusal::Rejected);
            let expected = if has_word { refusal } else { Refusal::Broken };
            assert_eq!(*why, expected);
            let text = error.to_string();
            assert!(text.starts_with("cannot reach 192.0.2.7:1 through the gateway at 127."));
            assert!(text.ends_with(&expected.to_string()), "{text}");
        }
    }

    #[test]
    fn other_servers_and_password_requests_have_their_own_errors() {
        let (locked, thread) = gateway(|tcp| {
            let socks = Socks::new(Some("alice:secret".parse().unwrap()));
            serve(tcp, socks, Err(Refusal::Broken));
        });
        let error = route(locked, "a:1").open().unwrap_err();
        assert!(matches!(error, ProxyError::PasswordRequired(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("write NAME:PASSWORD@127.0.0.1:"), "{text}");
        thread.join().unwrap();
        for said in [
            &b"HTTP/1.1 400"[..],
            &[5, 2],
            &[4, 0],
            &[5, 0, 4, 0],
            &[5, 0, 5, 0, 0, 9, 0],
        ] {
            let (other, thread) = gateway(|tcp| {
                tcp.write_all(said).unwrap();
                while tcp.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
            });
            let error = route(other, "a:1").open().unwrap_err();
            assert!(
                matches!(error, ProxyError::NotSocks(_)),
                "{said:?}: {error}"
            );
            thread.join().unwrap();
        }
    }

    #[test]
    fn password_is_sent_only_on_request() {
        for (own, admitted) in [
            (Some("alice:secret"), true),
            (None, true),
            (Some("alice:other"), false),
        ] {
            let own = own.map(|own| own.parse().unwrap());
            let (place, thread) = gateway(|tcp| {
                let outcome = Ok(SocketAddr::from(([10, 0, 0, 1], 1)));
                serve(tcp, Socks::new(own), outcome);
            });
            let mut route = route(place, "a:1");
            route.gateway.credentials = "alice:secret".parse().ok();
            match route.open() {
                Ok(_) => assert!(admitted),
                Err(ProxyError::WrongPassword(_)) => assert!(!admitted),
                Err(error) => panic!("{error}"),
            }
            thread.join().unwrap();
        }
    }

    #[test]
    fn closed_or_silent_connections_are_errors() {
        for said in [&[][..], &[5], &[5, 0], &[5, 0, 5, 0, 0, 1, 9]] {
            let (other, thread) = gateway(|tcp| {
                tcp.write_all(said).unwrap();
                tcp.shutdown(std::net::Shutdown::Write).unwrap();
                while tcp.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
            });
            let error = route(other, "a:1").open().unwrap_err();
            assert!(
                error.to_string().contains("closed the connection"),
                "{said:?}: {error}"
            );
            thread.join().unwrap();
        }
        let (mute, thread) = gateway(
            |tcp| {
                while tcp.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
            },
        );
        let route = route(mute, "a:1");
        let error = route.open_within(Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("in time"), "{error}");
        thread.join().unwrap();
    }

    #[test]
    fn missing_gateway_gives_a_hint() {
        let (closed, thread) = gateway(|_| {});
        let same_address = closed.clone();
        // the first client ends the server
        assert!(route(closed, "a:1").open().is_err());
        thread.join().unwrap();
        let error = route(same_address, "a:1").open().unwrap_err().to_string();
        assert!(
            error.contains("is `lighthaul gateway --socks` running there?"),
            "{error}"
        );
    }
}
