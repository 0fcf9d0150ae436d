//! Attempt to connect to a target, address by address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::target::Target;
use lighthaul_io::net::tcp::begin_unpaced;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::epoll::Epoll;
use crate::local_address::is_local;
use crate::messages::UNKNOWN_ADDRESS;
use crate::session_relay::OnwardReply;
use crate::target_rules::TargetRules;

/// Attempt to connect to a target.
#[derive(Debug)]
pub(crate) struct Attempt {
    target: Target,
    hops: u8,
    until: Instant,
    keepalive: Duration,
    /// Rules for the addresses. Each address is checked immediately before the connection.
    allowed: Arc<TargetRules>,
    /// Addresses that were not tried yet, the first one last.
    left: Vec<SocketAddr>,
    socket: Option<Socket>,
    /// Answer of the further gateway that connects to the target instead.
    onward: Option<OnwardReply>,
}

impl Attempt {
    /// Creates an attempt with a time limit, for a target whose addresses are not known yet.
    pub(crate) fn new(
        (target, hops): (Target, u8),
        until: Instant,
        (allowed, keepalive): (&Arc<TargetRules>, Duration),
    ) -> Self {
        Self {
            target,
            hops,
            until,
            keepalive,
            allowed: Arc::clone(allowed),
            left: Vec::new(),
            socket: None,
            onward: None,
        }
    }

    /// Lets a further gateway connect to the target, which answers on `socket`.
    pub(crate) fn forward(
        &mut self,
        socket: Socket,
        poll: &Epoll,
        token: u64,
    ) -> Result<(), Refusal> {
        poll.add(&socket, token).map_err(|_| Refusal::Broken)?;
        self.socket = Some(socket);
        self.onward = Some(OnwardReply::default());
        Ok(())
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the number of gateways that may still be crossed.
    pub(crate) const fn hops(&self) -> u8 {
        self.hops
    }

    /// Starts with the resolved addresses.
    pub(crate) fn begin(
        &mut self,
        mut addresses: Vec<SocketAddr>,
        poll: &Epoll,
        token: u64,
    ) -> Result<(), Refusal> {
        addresses.reverse();
        self.left = addresses;
        self.next(poll, token, Refusal::Unreachable)
    }

    /// Checks the attempt. Returns the connection and its local address, once it is established.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        poll: &Epoll,
        token: u64,
    ) -> Result<Option<(Socket, SocketAddr)>, Refusal> {
        if now >= self.until {
            return Err(Refusal::TimedOut);
        }
        let Some(socket) = &mut self.socket else {
            return Ok(None);
        };
        if let Some(preface) = &mut self.onward {
            let Some(outcome) = preface.read(socket) else {
                return Ok(None);
            };
            let from = outcome?;
            return Ok(self.socket.take().map(|socket| (socket, from)));
        }
        if let Ok(Some(error)) = socket.take_error() {
            let why = refusal(&error);
            self.next(poll, token, why)?;
            return Ok(None);
        }
        if socket.peer_addr().is_err() {
            return Ok(None);
        }
        set_keepalive(socket, self.keepalive).ok();
        let from = socket.local_addr().ok().and_then(|from| from.as_socket());
        let from = from.unwrap_or(UNKNOWN_ADDRESS);
        Ok(self.socket.take().map(|socket| (socket, from)))
    }

    /// Connects to the next address. Fails with `why` if there is none.
    fn next(&mut self, poll: &Epoll, token: u64, mut why: Refusal) -> Result<(), Refusal> {
        self.socket = None;
        while let Some(address) = self.left.pop() {
            if !self.allowed.admits_address(&self.target, address, is_local) {
                // the address was assigned to this host after its name was resolved
                why = Refusal::NotAllowed;
                continue;
            }
            match call(address, poll, token) {
                Ok(socket) => {
                    self.socket = Some(socket);
                    return Ok(());
                }
                Err(error) => why = refusal(&error),
            }
        }
        Err(why)
    }
}

fn call(address: SocketAddr, poll: &Epoll, token: u64) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    begin_unpaced(&socket);
    match socket.connect(&address.into()) {
        Err(error) if !is(&error, Errno::INPROGRESS) => return Err(error),
        _ => {}
    }
    poll.add(&socket, token)?;
    Ok(socket)
}

/// Enables TCP keepalive: the kernel probes a silent peer, and resets the connection without an answer.
pub(crate) fn set_keepalive(socket: &impl AsFd, keepalive: Duration) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(keepalive)
        .with_interval((keepalive / 4).max(KEEPALIVE_MIN))
        .with_retries(KEEPALIVES);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "protocols have no other reasons"
)]
fn refusal(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Refusal::Refused,
        io::ErrorKind::TimedOut => Refusal::TimedOut,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => Refusal::Unreachable,
        _ => Refusal::Broken,
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

/// Number of unanswered keepalive probes that reset a connection.
const KEEPALIVES: u32 = 4;
/// Minimum interval, since the kernel counts in seconds.
const KEEPALIVE_MIN: Duration = Duration::from_secs(1);

/// Time limit for a target's answer.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Connects to a listener on this host under `rule`. Returns the result, which must agree with the listener's.
    #[expect(clippy::unwrap_in_result, reason = "the test fails, not the call")]
    fn call_under(rule: &str) -> Result<(), Refusal> {
        let listener = lighthaul_io::net::tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let rule = rule.replace("PORT", &address.port().to_string());
        let allowed = Arc::new(TargetRules::new(vec![rule.parse().unwrap()]));
        let target = "example.org:80".parse().unwrap();
        let keepalive = Duration::from_mins(1);
        let mut attempt = Attempt::new((target, 0), Instant::NEVER, (&allowed, keepalive));
        let begun = attempt.begin(vec![address], &Epoll::new().unwrap(), 1);
        assert_eq!(
            listener.accept().is_ok(),
            begun.is_ok(),
            "no connection without a rule"
        );
        begun
    }

    #[test]
    fn address_is_checked_again_immediately_before_the_connection() {
        assert_eq!(call_under("*:*"), Err(Refusal::NotAllowed));
        assert_eq!(call_under("example.org:*"), Err(Refusal::NotAllowed));
        assert_eq!(call_under("127.0.0.0/8:PORT"), Err(Refusal::NotAllowed));
        assert_eq!(call_under("127.0.0.1:PORT"), Ok(()));
    }
}
