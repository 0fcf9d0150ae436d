//! Where programs come in: listeners, and what is said before their own bytes flow.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Sign, Watch, wait};
use tracing::{debug, info, warn};

use crate::allowed::Allowed;
use crate::attempt::look_after;
use crate::call::Newcomer;
use crate::capture::connect::Connect;
use crate::capture::credentials::Credentials;
use crate::capture::handshake::{Handshake, Progress};
use crate::capture::socks::Socks;
use crate::capture::transparent;
use crate::line::Line;
use crate::poll::Poll;
use crate::target::Target;
use crate::word::HOPS_MAX;

/// How a program says where it wants to go.
#[derive(Clone, Debug)]
pub enum Kind {
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
pub struct Door {
    /// Does not block.
    pub listener: TcpListener,
    /// What is spoken.
    pub kind: Kind,
}

/// Where programs go on from a door.
#[derive(Clone, Debug)]
pub struct Ways {
    /// Over a link, to another gateway.
    pub link: Line,
    /// From here, if they want to go to such targets.
    pub direct: Option<(Arc<Allowed>, Line)>,
}

impl Ways {
    fn to(&self, target: &Target) -> &Line {
        match &self.direct {
            Some((near, line)) if near.names(target) => line,
            _ => &self.link,
        }
    }
}

/// The thread that lets programs in.
#[derive(Debug)]
pub struct Doors {
    sign: Sign,
}

impl Doors {
    /// Lets programs in by these doors, to one of `ways`; a silent one is asked so often whether it is still there.
    pub fn open(doors: Vec<Door>, ways: Ways, keepalive: Duration) -> io::Result<Self> {
        let poll = Poll::new()?;
        let sign = Sign::new()?;
        poll.add(&sign, SIGN)?;
        for (token, door) in (0..).zip(&doors) {
            poll.add(&door.listener, token)?;
        }
        let porter = Porter {
            last_token: doors.len() as u64,
            doors,
            ways,
            keepalive,
            poll,
            clock: Clock::start(),
            guests: BTreeMap::new(),
            late: BTreeSet::new(),
            sign: sign.clone(),
        };
        thread::Builder::new()
            .name("doors".into())
            .spawn(move || porter.run())?;
        Ok(Self { sign })
    }
}

impl Drop for Doors {
    fn drop(&mut self) {
        self.sign.raise();
    }
}

#[derive(Debug)]
struct Porter {
    doors: Vec<Door>,
    ways: Ways,
    keepalive: Duration,
    poll: Poll,
    clock: Clock,
    guests: BTreeMap<u64, Guest>,
    last_token: u64,
    /// Doors where programs may still wait, since not all could be let in.
    late: BTreeSet<usize>,
    sign: Sign,
}

/// Somebody who has not said where to.
#[derive(Debug)]
struct Guest {
    socket: TcpStream,
    from: SocketAddr,
    handshake: Box<dyn Handshake>,
    until: Instant,
}

impl Porter {
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
            self.guests.retain(|_, guest| guest.until > now);
            // no event comes again of those that wait already
            for nth in std::mem::take(&mut self.late) {
                self.accept(nth);
            }
        }
    }

    fn look(&mut self, token: u64) {
        if let Some(guest) = self.guests.remove(&token) {
            self.listen(token, guest);
        } else if (token as usize) < self.doors.len() {
            self.accept(token as usize);
        }
    }

    /// Takes whoever waits at a door.
    fn accept(&mut self, nth: usize) {
        loop {
            let (socket, from) = match self.doors[nth].listener.accept() {
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
        look_after(&socket, self.keepalive)?;
        let handshake: Box<dyn Handshake> = match &self.doors[nth].kind {
            Kind::Socks(credentials) => Box::new(Socks::new(credentials.clone())),
            Kind::Connect(credentials) => Box::new(Connect::new(credentials.clone())),
            Kind::Forward(target) => {
                let target = target.clone();
                self.enter(socket, target, None, Vec::new());
                return Ok(());
            }
            Kind::Transparent => {
                if let Some(target) = transparent::wanted(&socket)? {
                    self.enter(socket, target, None, Vec::new());
                }
                return Ok(());
            }
        };
        if self.guests.len() >= GUESTS_MAX {
            debug!("{from} found no room");
            return Ok(());
        }
        self.last_token += 1;
        let token = self.last_token;
        self.poll.add(&socket, token)?;
        let until = self.clock.now() + PATIENCE;
        let guest = Guest {
            socket,
            from,
            handshake,
            until,
        };
        self.listen(token, guest);
        Ok(())
    }

    /// Hears what somebody says of where to.
    fn listen(&mut self, token: u64, mut guest: Guest) {
        let mut octets = [0; 4096];
        loop {
            let count = match guest.socket.read(&mut octets) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.guests.insert(token, guest);
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            match guest.handshake.take(&octets[..count]) {
                Progress::More { reply } => {
                    if guest.socket.write_all(&reply).is_err() {
                        return;
                    }
                }
                Progress::Wants { target, rest } => {
                    self.poll.remove(&guest.socket);
                    self.enter(guest.socket, target, Some(guest.handshake), rest);
                    return;
                }
                Progress::Refused { reply, why } => {
                    info!("{} was sent away: {why}", guest.from);
                    guest.socket.write_all(&reply).ok();
                    return;
                }
            }
        }
    }

    fn enter(
        &self,
        socket: TcpStream,
        target: Target,
        handshake: Option<Box<dyn Handshake>>,
        rest: Vec<u8>,
    ) {
        self.ways.to(&target).take(Newcomer {
            session: None,
            socket: socket.into(),
            target,
            handshake,
            rest,
            hops: HOPS_MAX,
            tie: None,
        });
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
const GUESTS_MAX: usize = 1 << 12;
/// How long they may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often those who took too long are sent away.
const SWEEP: Duration = Duration::from_secs(1);
