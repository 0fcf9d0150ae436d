//! Listeners for programs, and the handshakes in which programs name their targets.
//!
//! One thread accepts SOCKS5, HTTP CONNECT, fixed forwards and redirected connections. After the
//! handshake it passes the socket to the link, or to the proxy of near targets. A program has ten
//! seconds for the handshake and a seat among its host and network, so that no host can occupy all
//! seats.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::seats::{Limits, Seats};
use lighthaul_capture::connect::Connect;
use lighthaul_capture::credentials::Credentials;
use lighthaul_capture::handshake::{Handshake, Progress};
use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::socks::Socks;
use lighthaul_capture::target::Target;
use lighthaul_capture::transparent;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Waker, Watch, wait};
use socket2::SockRef;
use tracing::{debug, warn};

use crate::attempt::set_keepalive;
use crate::command::{NewSession, refuse_session};
use crate::epoll::Epoll;
use crate::host_shares::HostShares;
use crate::line_limit::LineLimit;
use crate::link_handle::LinkHandle;
use crate::messages::HOPS_MAX;
use crate::target_rules::TargetRules;

/// Protocol by which a program names its target.
#[derive(Clone, Debug)]
pub enum ProxyProtocol {
    /// SOCKS5, optionally with a name and a password.
    Socks(Option<Credentials>),
    /// HTTP CONNECT, optionally with a name and a password.
    Connect(Option<Credentials>),
    /// No protocol: all connections have the given target.
    Forward(Target),
    /// No protocol: the kernel redirected the connection.
    Transparent,
}

/// Listener and its protocol.
#[derive(Debug)]
pub struct ProxyListener {
    /// Non-blocking listener.
    pub listener: TcpListener,
    /// Protocol.
    pub kind: ProxyProtocol,
}

/// Routes of sessions to their targets.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Link to another gateway.
    pub link: LinkHandle,
    /// Rules for direct targets, and the thread that connects to them without a link.
    pub direct: Option<(Arc<TargetRules>, LinkHandle)>,
}

impl Routes {
    fn to(&self, target: &Target) -> &LinkHandle {
        match &self.direct {
            Some((near, handle)) if near.names(target) => handle,
            _ => &self.link,
        }
    }
}

/// Handle of the thread that serves the listeners; the listeners close on drop.
#[derive(Debug)]
pub struct ProxyListeners {
    waker: Waker,
}

impl ProxyListeners {
    /// Starts to accept programs at `listeners`. Each session takes a share of `shares`. Silent programs are probed at
    /// the interval `keepalive`.
    pub fn open(
        listeners: Vec<ProxyListener>,
        routes: Routes,
        shares: HostShares,
        keepalive: Duration,
    ) -> io::Result<Self> {
        let poll = Epoll::new()?;
        let waker = Waker::new()?;
        poll.add(&waker, WAKER)?;
        for (token, listener) in (0..).zip(&listeners) {
            // connections inherit this: urgent data are part of the stream, and would be lost otherwise
            SockRef::from(&listener.listener).set_out_of_band_inline(true)?;
            poll.add(&listener.listener, token)?;
        }
        let accept_loop = AcceptLoop {
            listeners,
            routes,
            shares,
            keepalive,
            poll,
            clock: Clock::start(),
            pending: BTreeMap::new(),
            seats: Seats::new([PENDING]),
            late: BTreeSet::new(),
            more: BTreeSet::new(),
            refusals: LineLimit::default(),
            waker: waker.clone(),
        };
        thread::Builder::new()
            .name("listeners".into())
            .spawn(move || accept_loop.run())?;
        Ok(Self { waker })
    }
}

impl Drop for ProxyListeners {
    fn drop(&mut self) {
        self.waker.raise();
    }
}

#[derive(Debug)]
struct AcceptLoop {
    listeners: Vec<ProxyListener>,
    routes: Routes,
    shares: HostShares,
    keepalive: Duration,
    poll: Epoll,
    clock: Clock,
    /// Programs by token: the number of the program's seat, plus the number of listeners.
    pending: BTreeMap<u64, PendingProgram>,
    /// Seats of programs. Each is idle from the start, so that the oldest in a full host or network is closed.
    seats: Seats<(), 1>,
    /// Listeners that failed, at which programs may wait.
    late: BTreeSet<usize>,
    /// Listeners at which more programs than one turn accepts may wait.
    more: BTreeSet<usize>,
    refusals: LineLimit,
    waker: Waker,
}

/// Program that has not named its target yet.
#[derive(Debug)]
struct PendingProgram {
    socket: TcpStream,
    from: SocketAddr,
    handshake: Box<dyn Handshake>,
    until: Instant,
}

impl AcceptLoop {
    fn run(mut self) {
        loop {
            let pause = if self.more.is_empty() {
                CHECK_INTERVAL
            } else {
                Duration::ZERO
            };
            let until = self.clock.now() + pause;
            let mut watches = [Watch::read(self.poll.as_raw_fd())];
            if let Err(error) = wait(self.clock, &mut watches, until) {
                warn!("no further programs are accepted: {error}");
                return;
            }
            if self.waker.lower() {
                return;
            }
            match self.poll.ready() {
                Ok(ready) => ready.into_iter().for_each(|ready| self.look(ready.token)),
                Err(error) => warn!("cannot poll sockets: {error}"),
            }
            let now = self.clock.now();
            let expired: Vec<u64> = self
                .pending
                .extract_if(.., |_, program| program.until <= now)
                .map(|(token, _)| token)
                .collect();
            for token in expired {
                self.release(token);
            }
            self.refusals.summarize(now);
            // waiting programs cause no further event
            let mut again = std::mem::take(&mut self.late);
            again.append(&mut self.more);
            for nth in again {
                self.accept(nth);
            }
        }
    }

    fn look(&mut self, token: u64) {
        if let Some(program) = self.pending.remove(&token) {
            self.listen(token, program);
            self.release(token);
        } else if (token as usize) < self.listeners.len() {
            self.accept(token as usize);
        }
    }

    /// Accepts programs that wait at a listener, at most [`ACCEPTS_MAX`], so that other handshakes continue.
    fn accept(&mut self, nth: usize) {
        for _ in 0..ACCEPTS_MAX {
            let (socket, from) = match self.listeners[nth].listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    // the program has disconnected, or there are too many open files: try again later
                    debug!("cannot accept a connection of a program: {error}");
                    self.late.insert(nth);
                    return;
                }
            };
            if let Err(error) = self.receive(nth, socket, from) {
                debug!("cannot accept {from}: {error}");
            }
        }
        self.more.insert(nth);
    }

    fn receive(&mut self, nth: usize, socket: TcpStream, from: SocketAddr) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        set_keepalive(&socket, self.keepalive)?;
        // a program may have connected before its listener was set up
        SockRef::from(&socket).set_out_of_band_inline(true)?;
        let handshake: Box<dyn Handshake> = match &self.listeners[nth].kind {
            ProxyProtocol::Socks(credentials) => Box::new(Socks::new(credentials.clone())),
            ProxyProtocol::Connect(credentials) => Box::new(Connect::new(credentials.clone())),
            ProxyProtocol::Forward(target) => {
                let target = target.clone();
                self.enter((socket, from), target, None, Vec::new());
                return Ok(());
            }
            ProxyProtocol::Transparent => {
                if let Some(target) = transparent::wanted(&socket)? {
                    self.enter((socket, from), target, None, Vec::new());
                }
                return Ok(());
            }
        };
        let now = self.clock.now();
        let seated = self.seats.take(None, from.ip(), [1]);
        let seated = seated.map_err(|full| io::Error::other(full.to_string()))?;
        self.seats.note_idle(seated.number, Some(now.as_nanos()));
        for left in seated.revoked {
            self.pending.remove(&self.token(left));
        }
        let token = self.token(seated.number);
        if let Err(error) = self.poll.add(&socket, token) {
            self.release(token);
            return Err(error);
        }
        let until = now + HANDSHAKE_TIMEOUT;
        let program = PendingProgram {
            socket,
            from,
            handshake,
            until,
        };
        self.listen(token, program);
        self.release(token);
        Ok(())
    }

    fn token(&self, seat: u64) -> u64 {
        self.listeners.len() as u64 + seat
    }

    /// Frees the seat of a program that is not pending any more.
    fn release(&mut self, token: u64) {
        if !self.pending.contains_key(&token) {
            self.seats.leave(token - self.listeners.len() as u64);
        }
    }

    /// Reads the handshake of a program.
    fn listen(&mut self, token: u64, mut program: PendingProgram) {
        let mut octets = [0; 4096];
        loop {
            let count = match program.socket.read(&mut octets) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.pending.insert(token, program);
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            match program.handshake.take(&octets[..count]) {
                Progress::More { reply } => {
                    if program.socket.write_all(&reply).is_err() {
                        return;
                    }
                }
                Progress::Wants { target, rest } => {
                    self.poll.remove(&program.socket);
                    let handshake = Some(program.handshake);
                    self.enter((program.socket, program.from), target, handshake, rest);
                    return;
                }
                Progress::Refused { reply, why } => {
                    let now = self.clock.now();
                    let from = program.from;
                    self.refusals
                        .log(now, || format!("{from} was refused: {why}"));
                    program.socket.write_all(&reply).ok();
                    return;
                }
            }
        }
    }

    fn enter(
        &mut self,
        (socket, from): (TcpStream, SocketAddr),
        target: Target,
        handshake: Option<Box<dyn Handshake>>,
        rest: Vec<u8>,
    ) {
        let new_session = |share| NewSession {
            session: None,
            socket: socket.into(),
            target,
            handshake,
            rest,
            hops: HOPS_MAX,
            relay: None,
            share,
        };
        match self.shares.enter(from.ip()) {
            Ok(share) => {
                let new_session = new_session(Some(share));
                self.routes
                    .to(&new_session.target)
                    .open_session(new_session);
            }
            Err(full) => {
                let now = self.clock.now();
                self.refusals
                    .log(now, || format!("{from} was refused: {full}"));
                refuse_session(new_session(None), Refusal::Busy);
            }
        }
    }
}

/// Binds a non-blocking listener.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = lighthaul_io::net::tcp::listen(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

const WAKER: u64 = u64::MAX;
/// Limits of programs in the handshake.
const PENDING: Limits = Limits {
    all: 1 << 12,
    identity: 1 << 12,
    authority: 1 << 12,
    host: 1 << 10,
    site: 1 << 11,
};
/// Time limit of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of programs that a listener accepts in one turn.
const ACCEPTS_MAX: usize = 64;
/// Interval of checks for the time limit.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use lighthaul_io::host::poller::raise_open_file_limit;
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::link_thread;
    use crate::settings::Settings;

    fn handle() -> LinkHandle {
        link_thread::start(Arc::new(Settings::example())).unwrap()
    }

    /// Opens a listener for at most `sessions` sessions, and returns its address.
    fn open(kind: ProxyProtocol, sessions: u64) -> (ProxyListeners, SocketAddr) {
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Routes {
            link: handle(),
            direct: None,
        };
        let listeners = vec![ProxyListener { listener, kind }];
        let listeners = ProxyListeners::open(
            listeners,
            routes,
            HostShares::new(sessions),
            Duration::from_mins(1),
        );
        (listeners.unwrap(), address)
    }

    /// Connects to a listener from another address of this host.
    fn call_from(last: u8, address: SocketAddr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let from = IpAddr::from([127, 0, 0, last]);
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        let tcp = TcpStream::from(socket);
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        tcp
    }

    /// Returns true if the gateway has neither sent data nor closed the connection.
    fn is_open(program: &mut TcpStream) -> bool {
        program.set_nonblocking(true).unwrap();
        let received = program.read(&mut [0]).map_err(|error| error.kind());
        received == Err(ErrorKind::WouldBlock)
    }

    #[test]
    fn silent_programs_of_one_host_block_no_other_host() {
        raise_open_file_limit();
        let (_doors, address) = open(ProxyProtocol::Socks(None), 9);
        let mut silent: Vec<_> = (0..4200).map(|_| call_from(2, address)).collect();
        let greet = |last| {
            let mut program = call_from(last, address);
            program.write_all(&[5, 1, 0]).unwrap();
            let mut reply = [0; 2];
            program.read_exact(&mut reply).map(|()| reply)
        };
        assert_eq!(greet(3).unwrap(), [5, 0]);
        // the oldest of the same host was closed for a new one
        assert_eq!(greet(2).unwrap(), [5, 0]);
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
        assert!(is_open(silent.last_mut().unwrap()));
    }

    #[test]
    fn urgent_octet_is_part_of_the_handshake() {
        let (_doors, address) = open(ProxyProtocol::Socks(None), 9);
        let mut program = call_from(2, address);
        program.write_all(&[5, 1]).unwrap();
        SockRef::from(&program).send_out_of_band(&[0]).unwrap();
        let mut reply = [0; 2];
        program.read_exact(&mut reply).unwrap();
        assert_eq!(reply, [5, 0]);
    }

    #[test]
    fn flood_of_connections_delays_no_handshake() {
        raise_open_file_limit();
        let (_doors, address) = open(ProxyProtocol::Socks(None), 9);
        let mut program = call_from(3, address);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for host in [2, 4] {
                let is_over = &is_over;
                scope.spawn(move || {
                    let clock = Clock::start();
                    while !is_over.load(Relaxed) && clock.now() < Instant::ZERO + FLOOD_MAX {
                        flood_from(host, address);
                    }
                });
            }
            // the queue of the listener is full by then
            thread::park_timeout(Duration::from_secs(1));
            let clock = Clock::start();
            program.write_all(&[5, 1, 0]).unwrap();
            let mut reply = [0; 2];
            program.read_exact(&mut reply).unwrap();
            let took = clock.now();
            is_over.store(true, Relaxed);
            assert_eq!(reply, [5, 0]);
            assert!(took < Instant::ZERO + Duration::from_secs(1), "{took:?}");
        });
    }

    /// Starts many connections from another address of this host, and ends them.
    fn flood_from(last: u8, address: SocketAddr) {
        let sockets: Vec<Socket> = (0..500)
            .map(|_| {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                let from = IpAddr::from([127, 0, 0, last]);
                socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
                socket.set_nonblocking(true).unwrap();
                // the connection is in progress
                socket.connect(&address.into()).ok();
                socket
            })
            .collect();
        drop(sockets);
    }

    const FLOOD_MAX: Duration = Duration::from_secs(15);

    #[test]
    fn sessions_of_one_host_are_limited() {
        let target = "192.0.2.1:80".parse().unwrap();
        let (_doors, address) = open(ProxyProtocol::Forward(target), 8);
        let mut held: Vec<_> = (0..6).map(|_| call_from(2, address)).collect();
        let assert_refused = || {
            let received = call_from(2, address).read(&mut [0]);
            let received = received.map_err(|error| error.kind());
            let is_closed = matches!(received, Ok(0) | Err(ErrorKind::ConnectionReset));
            assert!(is_closed, "{received:?}");
        };
        assert_refused();
        held.push(call_from(3, address));
        // a later program is refused after an earlier one was accepted
        assert_refused();
        assert!(held.iter_mut().all(is_open));
    }
}
