//! Where programs come in: listeners, and what is said before their own bytes flow.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::seats::{Limits, Seats};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Sign, Watch, wait};
use tracing::{debug, info, warn};

use crate::attempt::set_keepalive;
use crate::capture::connect::Connect;
use crate::capture::credentials::Credentials;
use crate::capture::handshake::{Handshake, Progress};
use crate::capture::refusal::Refusal;
use crate::capture::socks::Socks;
use crate::capture::transparent;
use crate::command::{NewSession, refuse_session};
use crate::epoll::Epoll;
use crate::host_shares::HostShares;
use crate::link_handle::LinkHandle;
use crate::messages::HOPS_MAX;
use crate::target::Target;
use crate::target_rules::TargetRules;

/// How a program says where it wants to go.
#[derive(Clone, Debug)]
pub enum ProxyProtocol {
    /// SOCKS5, perhaps with a name and a password.
    Socks(Option<Credentials>),
    /// HTTP CONNECT, perhaps with a name and a password.
    Connect(Option<Credentials>),
    /// It does not: everybody goes there.
    Forward(Target),
    /// It believes that it is there already.
    Transparent,
}

/// One listener, and what is spoken there.
#[derive(Debug)]
pub struct ProxyListener {
    /// Does not block.
    pub listener: TcpListener,
    /// What is spoken.
    pub kind: ProxyProtocol,
}

/// Where programs go on from a listener.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Over a link, to another gateway.
    pub link: LinkHandle,
    /// From here, if they want to go to such targets.
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

/// The thread that lets programs in.
#[derive(Debug)]
pub struct ProxyListeners {
    sign: Sign,
}

impl ProxyListeners {
    /// Lets programs in by these listeners, to one of `routes`, each with a part of `shares`; a silent one is asked so often
    /// whether it is still there.
    pub fn open(
        listeners: Vec<ProxyListener>,
        routes: Routes,
        shares: HostShares,
        keepalive: Duration,
    ) -> io::Result<Self> {
        let poll = Epoll::new()?;
        let sign = Sign::new()?;
        poll.add(&sign, SIGN)?;
        for (token, listener) in (0..).zip(&listeners) {
            poll.add(&listener.listener, token)?;
        }
        let porter = AcceptLoop {
            listeners,
            routes,
            shares,
            keepalive,
            poll,
            clock: Clock::start(),
            pending: BTreeMap::new(),
            seats: Seats::new([PENDING]),
            late: BTreeSet::new(),
            sign: sign.clone(),
        };
        thread::Builder::new()
            .name("listeners".into())
            .spawn(move || porter.run())?;
        Ok(Self { sign })
    }
}

impl Drop for ProxyListeners {
    fn drop(&mut self) {
        self.sign.raise();
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
    /// By token, which is the number of the seat after those of listeners.
    pending: BTreeMap<u64, PendingProgram>,
    /// Every program is idle from the beginning, so that the oldest of a full host or network makes room.
    seats: Seats<(), 1>,
    /// ProxyListeners where programs may still wait, since not all could be let in.
    late: BTreeSet<usize>,
    sign: Sign,
}

/// Somebody who has not said where to.
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
            let until = self.clock.now() + SWEEP;
            let mut watches = [Watch::read(self.poll.as_raw_fd())];
            if let Err(error) = wait(self.clock, &mut watches, until) {
                warn!("nobody is let in any more: {error}");
                return;
            }
            if self.sign.lower() {
                return;
            }
            match self.poll.ready() {
                Ok(ready) => ready.into_iter().for_each(|ready| self.look(ready.token)),
                Err(error) => warn!("sockets could not be looked at: {error}"),
            }
            let now = self.clock.now();
            let gone: Vec<u64> = self
                .pending
                .extract_if(.., |_, program| program.until <= now)
                .map(|(token, _)| token)
                .collect();
            for token in gone {
                self.release(token);
            }
            // no event comes again of those that wait already
            for nth in std::mem::take(&mut self.late) {
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

    /// Takes whoever waits at a listener.
    fn accept(&mut self, nth: usize) {
        loop {
            let (socket, from) = match self.listeners[nth].listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    // a program may be gone again, or there are too many files: it waits till there are fewer
                    debug!("a program could not be let in: {error}");
                    self.late.insert(nth);
                    return;
                }
            };
            if let Err(error) = self.receive(nth, socket, from) {
                debug!("{from} could not be let in: {error}");
            }
        }
    }

    fn receive(&mut self, nth: usize, socket: TcpStream, from: SocketAddr) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        set_keepalive(&socket, self.keepalive)?;
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
        let until = now + PATIENCE;
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

    /// Gives back the seat of a program that has left.
    fn release(&mut self, token: u64) {
        if !self.pending.contains_key(&token) {
            self.seats.leave(token - self.listeners.len() as u64);
        }
    }

    /// Hears what somebody says of where to.
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
                    info!("{} was sent away: {why}", program.from);
                    program.socket.write_all(&reply).ok();
                    return;
                }
            }
        }
    }

    fn enter(
        &self,
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
                info!("{from} was sent away: {full}");
                refuse_session(new_session(None), Refusal::Busy);
            }
        }
    }
}

/// A listener that does not block.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = lighthaul_io::net::tcp::listen(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

const SIGN: u64 = u64::MAX;
/// Programs that are saying where to.
const PENDING: Limits = Limits {
    all: 1 << 12,
    identity: 1 << 12,
    host: 1 << 10,
    site: 1 << 11,
};
/// How long they may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often those who took too long are sent away.
const SWEEP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use lighthaul_base::Size;
    use lighthaul_io::host::poller::raise_open_file_limit;
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::link_thread;
    use crate::settings::{LinkLimits, Settings};

    fn handle() -> LinkHandle {
        link_thread::start(Arc::new(Settings {
            allowed: Arc::default(),
            direct: Arc::default(),
            rate: None,
            booked: false,
            memory: Size(1 << 20),
            slab: Size(1 << 16),
            age: Duration::from_millis(1),
            patience: Duration::from_secs(1),
            keepalive: Duration::from_mins(1),
            sessions_max: 9,
            links: LinkLimits {
                all: 1,
                key: 1,
                address: 1,
                memory: Size(1 << 20),
            },
            onward: None,
        }))
        .unwrap()
    }

    /// Opens a listener for at most so many sessions, and returns where it is.
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

    /// CommandQueue a listener from another address of this host.
    fn call_from(last: u8, address: SocketAddr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let from = IpAddr::from([127, 0, 0, last]);
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        let tcp = TcpStream::from(socket);
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        tcp
    }

    /// Returns true if the listener has neither said anything nor hung up.
    fn is_open(program: &mut TcpStream) -> bool {
        program.set_nonblocking(true).unwrap();
        let heard = program.read(&mut [0]).map_err(|error| error.kind());
        heard == Err(ErrorKind::WouldBlock)
    }

    #[test]
    fn silent_programs_of_one_host_block_no_other_host() {
        raise_open_file_limit();
        let (_doors, address) = open(ProxyProtocol::Socks(None), 9);
        let mut silent: Vec<_> = (0..4200).map(|_| call_from(2, address)).collect();
        let greeted = |last| {
            let mut program = call_from(last, address);
            program.write_all(&[5, 1, 0]).unwrap();
            let mut reply = [0; 2];
            program.read_exact(&mut reply).map(|()| reply)
        };
        assert_eq!(greeted(3).unwrap(), [5, 0]);
        // also others of the same host, where the oldest has left
        assert_eq!(greeted(2).unwrap(), [5, 0]);
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
        assert!(is_open(silent.last_mut().unwrap()));
    }

    #[test]
    fn sessions_of_one_host_leave_some_to_others() {
        let target = "192.0.2.1:80".parse().unwrap();
        let (_doors, address) = open(ProxyProtocol::Forward(target), 8);
        let mut held: Vec<_> = (0..6).map(|_| call_from(2, address)).collect();
        let assert_refused = || {
            let heard = call_from(2, address).read(&mut [0]);
            let heard = heard.map_err(|error| error.kind());
            let is_closed = matches!(heard, Ok(0) | Err(ErrorKind::ConnectionReset));
            assert!(is_closed, "{heard:?}");
        };
        assert_refused();
        held.push(call_from(3, address));
        // a later caller is refused after an earlier one was let in
        assert_refused();
        assert!(held.iter_mut().all(is_open));
    }
}
