//! Attempt to connect to a target, address by address.
//!
//! An `Attempt` belongs to one session and never blocks. The multiplexer calls `poll` when the
//! socket is ready, and once a second:
//!
//! ```text
//! new -> begin (addresses) -> connect -> failed: next address, or its Refusal
//!     -> forward (further gateway) ---> its answer
//! ```
//!
//! The rules check each address immediately before the connection. An attempt has a time limit, 10
//! s in general. Names are resolved elsewhere.

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

    /// Lets a further gateway connect to the target. The result arrives on `socket`.
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
    // urgent data are part of the stream, and would be lost otherwise
    socket.set_out_of_band_inline(true)?;
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
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;
    use crate::session_relay::{OnwardHandshake, relay_pair};
    use lighthaul_capture::handshake::Handshake;

    /// Token of the sockets in these tests.
    const TOKEN: u64 = 1;

    fn listener() -> TcpListener {
        let listener = lighthaul_io::net::tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    /// Returns an address at which nothing listens.
    fn closed() -> SocketAddr {
        listener().local_addr().unwrap()
    }

    /// Returns an attempt that may use these addresses, until an hour has passed.
    fn attempt(addresses: &[SocketAddr]) -> Attempt {
        let rule = |address: &SocketAddr| {
            let rule = format!("{}:{}", address.ip(), address.port());
            rule.parse().unwrap()
        };
        let allowed = Arc::new(TargetRules::new(addresses.iter().map(rule).collect()));
        let target = "example.org:80".parse().unwrap();
        Attempt::new((target, 3), UNTIL, (&allowed, Duration::from_mins(1)))
    }

    /// Polls an attempt until it has a result.
    fn outcome(attempt: &mut Attempt, poll: &Epoll) -> Result<(Socket, SocketAddr), Refusal> {
        for _ in 0..1000 {
            if let Some(connection) = attempt.poll(Instant::ZERO, poll, TOKEN)? {
                return Ok(connection);
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        panic!("the attempt has no result");
    }

    /// Connects to a listener on this host under `rule`. Returns the result, which must agree with the listener's.
    #[expect(clippy::unwrap_in_result, reason = "the test fails, not the call")]
    fn call_under(rule: &str) -> Result<(), Refusal> {
        let listener = listener();
        let address = listener.local_addr().unwrap();
        let rule = rule.replace("PORT", &address.port().to_string());
        let allowed = Arc::new(TargetRules::new(vec![rule.parse().unwrap()]));
        let target = "example.org:80".parse().unwrap();
        let keepalive = Duration::from_mins(1);
        let mut attempt = Attempt::new((target, 0), Instant::NEVER, (&allowed, keepalive));
        let begun = attempt.begin(vec![address], &Epoll::new().unwrap(), TOKEN);
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

    #[test]
    fn addresses_are_tried_in_order_until_a_connection_succeeds() {
        let (first, second) = (listener(), listener());
        let places = [&first, &second].map(|one| one.local_addr().unwrap());
        // the kernel refuses TCP to a broadcast address at once, and the host refuses the closed port
        let unreachable = "255.255.255.255:9".parse().unwrap();
        let addresses = [unreachable, closed(), places[0], places[1]];
        let mut attempt = attempt(&addresses);
        let poll = Epoll::new().unwrap();
        assert_eq!(attempt.begin(addresses.into(), &poll, TOKEN), Ok(()));
        let (socket, from) = outcome(&mut attempt, &poll).unwrap();
        let peer = socket.peer_addr().unwrap().as_socket();
        assert_eq!(peer, Some(places[0]));
        let (_accepted, caller) = first.accept().unwrap();
        assert_eq!(from, caller);
        assert!(second.accept().is_err(), "a later address stays unused");
        // a connection is handed out once
        assert!(attempt.poll(Instant::ZERO, &poll, TOKEN).unwrap().is_none());
    }

    #[test]
    fn connection_is_probed_when_its_peer_is_silent() {
        let listener = listener();
        let address = listener.local_addr().unwrap();
        let mut attempt = attempt(&[address]);
        let poll = Epoll::new().unwrap();
        attempt.begin(vec![address], &poll, TOKEN).unwrap();
        let (socket, _) = outcome(&mut attempt, &poll).unwrap();
        assert!(socket.keepalive().unwrap() && socket.out_of_band_inline().unwrap());
        let probes = [socket.tcp_keepalive_time(), socket.tcp_keepalive_interval()];
        let probes = probes.map(|time| time.unwrap().as_secs());
        assert_eq!(probes, [60, 15]);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 4);
    }

    #[test]
    fn last_address_that_fails_gives_the_reason() {
        let unreachable = "255.255.255.255:9".parse().unwrap();
        let none: [SocketAddr; 0] = [];
        for (addresses, reason) in [
            (&none[..], Refusal::Unreachable),
            (&[unreachable], Refusal::Unreachable),
            (&[unreachable, closed()], Refusal::Refused),
        ] {
            let mut attempt = attempt(addresses);
            let poll = Epoll::new().unwrap();
            let begun = attempt.begin(addresses.into(), &poll, TOKEN);
            let why = begun.and_then(|()| outcome(&mut attempt, &poll).map(drop));
            assert_eq!(why, Err(reason), "{addresses:?}");
        }
    }

    #[test]
    fn attempt_fails_at_its_time_limit() {
        let mut attempt = attempt(&[]);
        let poll = Epoll::new().unwrap();
        let shortly_before = Instant::from_nanos(UNTIL.as_nanos() - 1);
        let waiting = attempt.poll(shortly_before, &poll, TOKEN);
        assert!(matches!(waiting, Ok(None)), "{waiting:?}");
        let late = attempt.poll(UNTIL, &poll, TOKEN).map(drop);
        assert_eq!(late, Err(Refusal::TimedOut));
    }

    #[test]
    fn further_gateway_answers_for_the_target() {
        for outcome in [Ok("192.0.2.1:7".parse().unwrap()), Err(Refusal::Refused)] {
            let [(came, _), (mut goes, _)] = relay_pair().unwrap();
            let mut attempt = attempt(&[]);
            assert_eq!(attempt.hops(), 3);
            assert_eq!(attempt.target().to_string(), "example.org:80");
            let poll = Epoll::new().unwrap();
            attempt.forward(came, &poll, TOKEN).unwrap();
            assert!(attempt.poll(Instant::ZERO, &poll, TOKEN).unwrap().is_none());
            goes.write_all(&OnwardHandshake.answer(outcome)).unwrap();
            assert!(poll.ready().unwrap().iter().any(|one| one.token == TOKEN));
            let found = attempt.poll(Instant::ZERO, &poll, TOKEN);
            let found = found.map(|found| found.unwrap().1);
            assert_eq!(found, outcome);
        }
    }

    #[test]
    fn errors_of_the_kernel_have_their_reasons() {
        for (errno, reason) in [
            (Errno::CONNREFUSED, Refusal::Refused),
            (Errno::TIMEDOUT, Refusal::TimedOut),
            (Errno::HOSTUNREACH, Refusal::Unreachable),
            (Errno::NETUNREACH, Refusal::Unreachable),
            (Errno::ADDRNOTAVAIL, Refusal::Unreachable),
            (Errno::CONNRESET, Refusal::Broken),
        ] {
            assert_eq!(refusal(&errno.into()), reason, "{errno}");
        }
    }

    const UNTIL: Instant = Instant::from_nanos(3_600_000_000_000);
}
