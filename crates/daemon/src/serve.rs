//! The daemon: one TCP and one UDP port of the same number, a thread for every session.

use std::io::{self, BufRead};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::clock::Clock;
use lighthaul_io::identity::{Fingerprint, Identity};
use lighthaul_io::interrupt;
use lighthaul_io::udp::Udp;
use lighthaul_io::wait::{Watch, wait};
use lighthaul_io::{tcp, tls};
use lighthaul_transfer::error::{Code, Error};
use tracing::{debug, field, info, info_span, warn};

use crate::admission::{NotAdmitted, Refused, admit};
use crate::dispatch::Sessions;
use crate::exporter;
use crate::gateways::Gateways;
use crate::invitation::Invitations;
use crate::joins::Joins;
use crate::lobby::{Lobby, Place};
use crate::metrics::{Metrics, Refusal};
use crate::session::{Attended, attend};
use crate::tries::Tries;

/// The word that starts the line in which a far side says where it listens.
pub const GREETING: &str = "lighthaul-1";
/// Sessions at a time; more are turned away.
const SESSIONS_MAX: usize = 256;
/// How often a listener looks whether it is to stop.
const LISTEN: Duration = Duration::from_millis(200);
/// How long sessions get to clean up.
const GRACE: Duration = Duration::from_secs(10);

/// How to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen, for TCP and UDP.
    pub address: SocketAddr,
    /// The daemon's key.
    pub identity: Identity,
    /// Who may call.
    pub welcome: Welcome,
    /// Paths start here; nothing outside can be named.
    pub root: Option<PathBuf>,
    /// Datagrams may be plain if the client wants that, too.
    pub plain: bool,
    /// Clients may have files sent to other daemons.
    pub relay: bool,
    /// Sessions of programs that come in from other gateways; without one, files are served.
    pub gateway: Option<Arc<Gateways>>,
}

/// Who may call.
#[derive(Clone, Debug)]
pub enum Welcome {
    /// Whoever these files let in.
    Listed {
        /// Keys, and authorities that vouch for others.
        keys: PathBuf,
        /// Tokens.
        tokens: PathBuf,
    },
    /// This one alone.
    Only(Fingerprint),
}

/// A daemon that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    service: Arc<Service>,
    clock: Clock,
}

/// What every session of a daemon shares.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) settings: Settings,
    pub(crate) sessions: Sessions,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) invitations: Invitations,
    pub(crate) joins: Joins,
    pub(crate) tries: Tries,
    lobby: Arc<Lobby>,
    refused: Refused,
}

/// How a daemon that serves once ended.
type Ended = Result<(), Error>;

impl Server {
    /// Listens for TCP and UDP on one port; port 0 takes any that is free for both.
    pub fn listen(settings: Settings) -> io::Result<Self> {
        let (listener, udp) = bind_both(settings.address)?;
        // a caller may be gone again between the sign that it is there and its being taken
        listener.set_nonblocking(true)?;
        let metrics = match &settings.gateway {
            Some(gateways) => Metrics::of_gateway(Arc::clone(gateways)),
            None => Metrics::new(),
        };
        let service = Arc::new(Service {
            settings,
            sessions: Sessions::default(),
            metrics: Arc::new(metrics),
            invitations: Invitations::default(),
            joins: Joins::default(),
            tries: Tries::default(),
            lobby: Arc::default(),
            refused: Refused::default(),
        });
        let dispatch = Arc::clone(&service);
        thread::Builder::new()
            .name("probes".into())
            .spawn(move || dispatch.sessions.run(&udp))?;
        Ok(Self {
            listener,
            service,
            clock: Clock::start(),
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Shows `/metrics` at `address` from now on; answers where that is.
    pub fn show_metrics(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        exporter::start(address, Arc::clone(&self.service.metrics))
    }

    /// Serves whoever calls, until somebody asks to stop; then sessions tell their callers.
    pub fn run(&self) -> io::Result<()> {
        while !interrupt::is_requested() {
            match self.accept() {
                Ok(Some((tcp, from))) => self.receive(tcp, from),
                Ok(None) => {}
                Err(error) => {
                    warn!("a call could not be taken: {error}");
                    thread::park_timeout(LISTEN);
                }
            }
            self.service.lobby.sweep(self.clock.now());
        }
        let until = self.clock.now() + GRACE;
        let sessions = || self.service.sessions.count.load(Ordering::Relaxed);
        info!("stopping, with {} sessions to end", sessions());
        while sessions() > 0 && self.clock.now() < until {
            thread::park_timeout(LISTEN);
        }
        Ok(())
    }

    /// Gives a caller a thread, if the lobby has room for it.
    fn receive(&self, tcp: TcpStream, from: SocketAddr) {
        let Some(place) = self.service.lobby.enter(&tcp, from, self.clock.now()) else {
            debug!("{from} found no room");
            self.service.metrics.refuse(Refusal::Lobby);
            return;
        };
        let service = Arc::clone(&self.service);
        let thread = thread::Builder::new().name("session".into());
        if let Err(error) = thread.spawn(move || service.serve(tcp, from, place)) {
            warn!("{from} could not be served: {error}");
        }
    }

    /// The next call; nothing if none came for a moment.
    fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        let clock = Clock::start();
        let mut watches = [Watch::read(self.listener.as_raw_fd())];
        wait(clock, &mut watches, Instant::ZERO + LISTEN)?;
        if !watches[0].readable {
            return Ok(None);
        }
        match self.listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            accepted => accepted.map(Some),
        }
    }

    /// Serves the first caller that is welcome, and says when that is over; strangers change nothing.
    fn run_once(&self, attended: &Arc<AtomicBool>, done: &SyncSender<Ended>) -> Ended {
        let failed =
            |e: io::Error| Error::new(Code::Network, format!("no call could be taken: {e}"));
        loop {
            if !attended.load(Ordering::Relaxed) {
                interrupt::check()?;
            }
            self.service.lobby.sweep(self.clock.now());
            let Some((tcp, from)) = self.accept().map_err(failed)? else {
                continue;
            };
            let Some(place) = self.service.lobby.enter(&tcp, from, self.clock.now()) else {
                continue;
            };
            let service = Arc::clone(&self.service);
            let (attended, done) = (Arc::clone(attended), done.clone());
            thread::spawn(move || {
                let Ok(guest) = admit(tcp, &service) else {
                    return;
                };
                drop(place);
                attended.store(true, Ordering::Relaxed);
                // what goes wrong is said to the caller, whose terminal this one's may be
                if !matches!(attend(guest, &service), Attended::Joined(_)) {
                    done.send(Ok(())).ok();
                }
            });
        }
    }
}

impl Service {
    /// One session, from the handshake to the verdict.
    fn serve(&self, tcp: TcpStream, from: SocketAddr, place: Place) {
        let span = info_span!("session", %from, who = field::Empty);
        let _within = span.enter();
        let guest = match admit(tcp, self) {
            Ok(guest) => guest,
            Err(NotAdmitted::Handshake(error)) => {
                self.metrics.refuse(Refusal::Handshake);
                debug!("{error}");
                return;
            }
            Err(NotAdmitted::Refused(key, error)) => {
                self.metrics.refuse(Refusal::Key);
                if self.refused.is_news(key) {
                    warn!("refused, and not mentioned again: {error}");
                }
                return;
            }
        };
        drop(place);
        span.record("who", &guest.rights.name);
        let Some(_seat) = self.sessions.seat(SESSIONS_MAX) else {
            self.metrics.refuse(Refusal::Busy);
            let text = format!("{SESSIONS_MAX} sessions are running there; try again later");
            let error = Error::new(Code::Network, text);
            guest.session.give_up(&error);
            warn!("turned away: {error}");
            return;
        };
        match attend(guest, self) {
            Attended::Joined(Ok(())) => debug!("joined a session"),
            Attended::Ended(Ok(summary)) => {
                let seconds = summary.elapsed.as_secs_f64();
                let (entries, bytes) = (summary.entries, summary.bytes);
                info!("{entries} entries, {bytes} bytes in {seconds:.2} s");
            }
            Attended::Joined(Err(error)) | Attended::Ended(Err(error)) => warn!("{error}"),
        }
    }
}

/// Reads from standard input who may call, says on standard output where, and serves one session.
pub fn serve_once(mut settings: Settings, out: &mut dyn io::Write) -> Result<(), Error> {
    let mut line = String::new();
    let said = |e: io::Error| Error::new(Code::Protocol, format!("nobody said who may call: {e}"));
    io::stdin().lock().read_line(&mut line).map_err(said)?;
    let caller = line
        .parse()
        .map_err(|e| Error::new(Code::Protocol, format!("{e}")))?;
    settings.welcome = Welcome::Only(caller);
    let key = tls::fingerprint(&settings.identity)?;
    let listening =
        |e: io::Error| Error::new(Code::Network, format!("no port could be opened: {e}"));
    let server = Server::listen(settings).map_err(listening)?;
    let port = server.address().map_err(listening)?.port();
    writeln!(out, "{GREETING} {port} {key}")
        .and_then(|()| out.flush())
        .map_err(listening)?;
    let (done, ended) = sync_channel(1);
    let attended = Arc::new(AtomicBool::new(false));
    let (hung_up, busy) = (done.clone(), Arc::clone(&attended));
    thread::spawn(move || {
        if let Err(error) = server.run_once(&attended, &done) {
            done.send(Err(error)).ok();
        }
    });
    thread::spawn(move || {
        // the caller's end of ssh closes when it is done, or dead
        io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
        if busy.load(Ordering::Relaxed) {
            thread::park_timeout(GRACE);
        }
        hung_up.send(Ok(())).ok();
    });
    ended
        .recv()
        .unwrap_or_else(|_| Err(Error::new(Code::Network, "the session broke down")))
}

/// A listener and a socket on one port; with port 0, on one that is free for both.
fn bind_both(address: SocketAddr) -> io::Result<(TcpListener, Udp)> {
    let mut last = io::Error::other("no port was tried");
    for _ in 0..16 {
        let listener = tcp::listen(address).or_else(|error| {
            // a kernel without IPv6 has no address that stands for both families
            let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            let any = address.ip() == Ipv6Addr::UNSPECIFIED;
            let no_family = tcp::is_no_family(&error);
            if any && no_family {
                tcp::listen(v4)
            } else {
                Err(error)
            }
        })?;
        match Udp::bind(listener.local_addr()?) {
            Ok(udp) => return Ok((listener, udp)),
            Err(error) => last = error,
        }
        if address.port() != 0 {
            break;
        }
    }
    Err(last)
}
