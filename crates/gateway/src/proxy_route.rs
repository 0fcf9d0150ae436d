//! Sessions of programs that know of gateways: SOCKS5 as RFC 1928 has it, from their side.
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
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_io::net::tcp;

use crate::capture::credentials::VERSION as PASSWORD_VERSION;
use crate::capture::refusal::Refusal;
use crate::proxy_address::ProxyAddress;
use crate::target::Target;

/// By which gateway to go, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRoute {
    /// The gateway near the program.
    pub gateway: ProxyAddress,
    /// Where the gateway near the target is to go; a name is resolved there.
    pub target: Target,
}

/// Why there is no session, and whose fault it is.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The gateway was not reached, or somebody asked to stop.
    #[error(transparent)]
    Io(#[from] World),
    /// The gateway says why not.
    #[error("{target} cannot be reached through the gateway at {gateway}: {why}")]
    Refused {
        /// Who says so.
        gateway: Target,
        /// Where it does not lead.
        target: Target,
        /// The reason.
        why: Refusal,
    },
    /// The gateway takes those alone who say a password.
    #[error("the gateway at {0} asks for a name and a password: write NAME:PASSWORD@{0}")]
    PasswordRequired(Target),
    /// Not this one.
    #[error("the gateway at {0} knows no such name, or with another password")]
    WrongPassword(Target),
    /// Whoever answers speaks something else.
    #[error(
        "what answers at {0} does not speak SOCKS5: is it where `lighthaul gateway --socks` listens?"
    )]
    NotSocks(Target),
    /// The gateway does not answer, or not to the end.
    #[error("the gateway at {0} {1}")]
    Silent(Target, &'static str),
}

impl ProxyRoute {
    /// A session: what is written to the stream is carried to the target, and what the target says is read from it. The
    /// gateways and the target get half a minute.
    pub fn open(&self) -> Result<TcpStream, ProxyError> {
        self.open_within(PATIENCE)
    }

    fn open_within(&self, patience: Duration) -> Result<TcpStream, ProxyError> {
        let Target { host, port } = &self.gateway.address;
        let tcp = tcp::connect_to(&["lighthaul gateway --socks"], &host.to_string(), *port)?;
        let clock = Clock::start();
        let until = clock.now() + patience;
        let exchange = Exchange {
            gateway: &self.gateway.address,
            tcp: &tcp,
            clock,
            until,
        };
        self.ask(&exchange)?;
        // what it is used for has its own time
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
        exchange.say(&request)?;
        let mut reply = [0; 2];
        exchange.hear(&mut reply)?;
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
        // from where the target was called is of no use here, but in the way
        let mut from = [0; 3];
        exchange.hear(&mut from)?;
        let Some(Ok(len)) = Target::read_len(&from[1..]) else {
            return Err(ProxyError::NotSocks(gateway.clone()));
        };
        exchange.hear(&mut vec![0; len.saturating_sub(2)])
    }

    /// Greets the gateway, and says who we are if it wants to know.
    fn enter(&self, exchange: &Exchange<'_>) -> Result<(), ProxyError> {
        let ProxyAddress {
            address,
            credentials,
        } = &self.gateway;
        match credentials {
            Some(_) => exchange.say(&[VERSION, 2, FREE, BY_PASSWORD])?,
            None => exchange.say(&[VERSION, 1, FREE])?,
        }
        let mut method = [0; 2];
        exchange.hear(&mut method)?;
        match (method, credentials) {
            ([VERSION, FREE], _) => return Ok(()),
            ([VERSION, BY_PASSWORD], Some(credentials)) => {
                let mut said = Vec::new();
                credentials.put(&mut said);
                exchange.say(&said)?;
            }
            ([VERSION, NO_METHOD], None) => {
                return Err(ProxyError::PasswordRequired(address.clone()));
            }
            _ => return Err(ProxyError::NotSocks(address.clone())),
        }
        let mut verdict = [0; 2];
        exchange.hear(&mut verdict)?;
        match verdict {
            [PASSWORD_VERSION, 0] => Ok(()),
            [PASSWORD_VERSION, _] => Err(ProxyError::WrongPassword(address.clone())),
            _ => Err(ProxyError::NotSocks(address.clone())),
        }
    }
}

/// What is said before the session begins, until it takes too long.
struct Exchange<'a> {
    gateway: &'a Target,
    tcp: &'a TcpStream,
    clock: Clock,
    until: Instant,
}

impl Exchange<'_> {
    /// Says a few octets, for which a socket that is new has room.
    fn say(&self, octets: &[u8]) -> Result<(), ProxyError> {
        let mut tcp = self.tcp;
        tcp.write_all(octets).map_err(|error| self.gone(&error))
    }

    /// Fills `room`, and takes no octet more.
    fn hear(&self, room: &mut [u8]) -> Result<(), ProxyError> {
        let mut tcp = self.tcp;
        let mut heard = 0;
        while heard < room.len() {
            self.wait()?;
            match tcp.read(&mut room[heard..]) {
                Ok(0) => return Err(self.gone(&ErrorKind::UnexpectedEof.into())),
                Ok(count) => heard += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.gone(&error)),
            }
        }
        Ok(())
    }

    /// Waits until there is something to hear.
    fn wait(&self) -> Result<(), ProxyError> {
        loop {
            interrupt::check()?;
            let now = self.clock.now();
            if now >= self.until {
                return Err(self.gone(&ErrorKind::TimedOut.into()));
            }
            let mut watches = [Watch::read(self.tcp.as_raw_fd())];
            wait(self.clock, &mut watches, self.until.min(now + LOOK))
                .map_err(|error| World::world("waiting for the gateway", error))?;
            if watches[0].readable {
                return Ok(());
            }
        }
    }

    fn gone(&self, error: &io::Error) -> ProxyError {
        let slow = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
        let what = if slow {
            "did not answer in time"
        } else {
            "hung up before it said whether the target was reached"
        };
        ProxyError::Silent(self.gateway.clone(), what)
    }
}

const VERSION: u8 = 5;
/// Methods: without a password, with one, and none of those that were offered.
const FREE: u8 = 0;
const BY_PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
/// How long gateways and target may take: as long as a program that is wrapped waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often who waits looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::thread::{self, JoinHandle};

    use super::*;
    use crate::capture::handshake::{Handshake, Progress};
    use crate::capture::socks::Socks;

    /// Where a gateway is that does as `answer` with its one guest.
    fn gateway(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> (Target, JoinHandle<()>) {
        let listener = tcp::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let (mut tcp, _) = listener.accept().unwrap();
            tcp.set_read_timeout(Some(PATIENCE)).unwrap();
            answer(&mut tcp);
        });
        (address.into(), thread)
    }

    /// Speaks SOCKS5 as a gateway does that comes to this end; answers where the guest wants to go.
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
                    // who is refused does not stay to the end
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
    fn a_session_begins_behind_the_handshake() {
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
            let mut heard = [0; 7];
            session.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"welcome");
            session.write_all(b"thanks").unwrap();
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_refusal_is_told_as_the_gateway_means_it() {
        for refusal in Refusal::ALL {
            let (gateway, thread) = gateway(move |tcp| {
                serve(tcp, Socks::new(None), Err(refusal));
            });
            let error = route(gateway, "192.0.2.7:1").open().unwrap_err();
            thread.join().unwrap();
            let ProxyError::Refused { why, .. } = &error else {
                panic!("{refusal:?} became {error:?}");
            };
            // SOCKS5 has no word for a gateway that is busy or refused
            let has_word = !matches!(refusal, Refusal::Busy | Refusal::Rejected);
            let expected = if has_word { refusal } else { Refusal::Broken };
            assert_eq!(*why, expected);
            let text = error.to_string();
            assert!(text.starts_with("192.0.2.7:1 cannot be reached through the gateway at 127."));
            assert!(text.ends_with(&expected.to_string()), "{text}");
        }
    }

    #[test]
    fn who_is_no_gateway_or_wants_a_password_is_told_apart() {
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
    fn who_has_a_password_says_it_where_it_is_asked_for() {
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
    fn who_goes_or_says_nothing_is_given_up() {
        for said in [&[][..], &[5], &[5, 0], &[5, 0, 5, 0, 0, 1, 9]] {
            let (other, thread) = gateway(|tcp| {
                tcp.write_all(said).unwrap();
                tcp.shutdown(std::net::Shutdown::Write).unwrap();
                while tcp.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
            });
            let error = route(other, "a:1").open().unwrap_err();
            assert!(error.to_string().contains("hung up"), "{said:?}: {error}");
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
    fn a_gateway_that_is_not_there_is_asked_about() {
        let (gone, thread) = gateway(|_| {});
        let gone_too = gone.clone();
        // whoever comes first ends it
        assert!(route(gone, "a:1").open().is_err());
        thread.join().unwrap();
        let error = route(gone_too, "a:1").open().unwrap_err().to_string();
        assert!(
            error.contains("is `lighthaul gateway --socks` running there?"),
            "{error}"
        );
    }
}
