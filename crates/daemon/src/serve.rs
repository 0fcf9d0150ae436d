//! The daemon: one TCP and one UDP port of the same number, a thread for every session.

use std::io::{self, BufRead};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::clock::{Clock, unix_nanos};
use lighthaul_io::identity::{Fingerprint, Identity};
use lighthaul_io::interrupt;
use lighthaul_io::tls::Side;
use lighthaul_io::udp::Udp;
use lighthaul_io::wait::{Watch, wait};
use lighthaul_io::{tcp, tls};
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::session::Session;
use lighthaul_transfer::watch::Summary;

use crate::allowed::Allowed;
use crate::dispatch::Sessions;
use crate::rights::Rights;
use crate::session::attend;

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
}

/// Who may call.
#[derive(Clone, Debug)]
pub enum Welcome {
    /// The keys that this file lists.
    Listed(PathBuf),
    /// This one alone.
    Only(Fingerprint),
}

/// A daemon that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    settings: Settings,
    sessions: Arc<Sessions>,
}

/// How a daemon that serves once ended.
type Ended = Result<(), Error>;

/// What a daemon tells whoever keeps its log.
pub type Log = fn(&str);

impl Server {
    /// Listens for TCP and UDP on one port; port 0 takes any that is free for both.
    pub fn listen(settings: Settings) -> io::Result<Self> {
        let (listener, udp) = bind_both(settings.address)?;
        let sessions = Arc::new(Sessions::default());
        let dispatch = Arc::clone(&sessions);
        thread::Builder::new()
            .name("probes".into())
            .spawn(move || dispatch.run(&udp))?;
        Ok(Self {
            listener,
            settings,
            sessions,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves whoever calls, until somebody asks to stop; then lets sessions clean up.
    pub fn run(&self, log: Log) -> io::Result<()> {
        while !interrupt::is_requested() {
            let (tcp, from) = match self.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => continue,
                Err(error) => {
                    log(&format!("a call could not be taken: {error}"));
                    thread::park_timeout(LISTEN);
                    continue;
                }
            };
            if self.sessions.count.load(Ordering::Relaxed) >= SESSIONS_MAX {
                log(&format!(
                    "{from} was turned away: {SESSIONS_MAX} sessions are running"
                ));
                continue;
            }
            let (settings, sessions) = (self.settings.clone(), Arc::clone(&self.sessions));
            sessions.count.fetch_add(1, Ordering::Relaxed);
            thread::Builder::new()
                .name("session".into())
                .spawn(move || {
                    let result = serve(tcp, &settings, &sessions);
                    sessions.count.fetch_sub(1, Ordering::Relaxed);
                    log(&line(from, result));
                })?;
        }
        let clock = Clock::start();
        while self.sessions.count.load(Ordering::Relaxed) > 0 && clock.now() < Instant::ZERO + GRACE
        {
            thread::park_timeout(LISTEN);
        }
        Ok(())
    }

    /// The next call; nothing if none came for a moment.
    fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        let clock = Clock::start();
        let mut watches = [Watch::read(self.listener.as_raw_fd())];
        wait(clock, &mut watches, Instant::ZERO + LISTEN)?;
        if watches[0].readable {
            self.listener.accept().map(Some)
        } else {
            Ok(None)
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
            let Some((tcp, _)) = self.accept().map_err(failed)? else {
                continue;
            };
            let (settings, sessions) = (self.settings.clone(), Arc::clone(&self.sessions));
            let (attended, done) = (Arc::clone(attended), done.clone());
            thread::spawn(move || {
                let Ok((session, rights)) = greet(tcp, &settings) else {
                    return;
                };
                attended.store(true, Ordering::Relaxed);
                // what goes wrong is said to the caller, whose terminal this one's may be
                attend(session, &rights, &settings, &sessions).ok();
                done.send(Ok(())).ok();
            });
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

/// One session, from the handshake to the verdict.
fn serve(tcp: TcpStream, settings: &Settings, sessions: &Sessions) -> Result<Summary, Error> {
    let (session, rights) = greet(tcp, settings)?;
    attend(session, &rights, settings, sessions)
}

/// Shakes hands, and turns away whoever is not welcome.
fn greet(tcp: TcpStream, settings: &Settings) -> Result<(Session, Rights), Error> {
    let session = Session::start(tcp::patient(tcp)?, Side::Server, &settings.identity)?;
    match settings.rights(session.peer) {
        Ok(rights) => Ok((session, rights)),
        Err(error) => {
            session.give_up(&error);
            Err(error)
        }
    }
}

impl Settings {
    /// What the holder of `key` may do, if it is welcome.
    fn rights(&self, key: Fingerprint) -> Result<Rights, Error> {
        let rights = match &self.welcome {
            Welcome::Only(only) => (*only == key).then(Rights::default),
            Welcome::Listed(path) => Allowed::load(path)
                .map_err(|_| {
                    Error::new(
                        Code::Permission,
                        "the keys that may call cannot be read there",
                    )
                })?
                .rights(key),
        };
        let rights = rights.filter(|rights| rights.hold_at(unix_seconds()));
        let rights = rights.map(|rights| rights.beneath(self.root.as_deref()));
        rights.ok_or_else(|| {
            let text = format!(
                "your key is not allowed there; its operator can add it with `lighthaul allow {key}`"
            );
            Error::new(Code::Permission, text)
        })
    }
}

fn unix_seconds() -> u64 {
    unix_nanos() / 1_000_000_000
}

/// A listener and a socket on one port; with port 0, on one that is free for both.
fn bind_both(address: SocketAddr) -> io::Result<(TcpListener, Udp)> {
    let mut last = io::Error::other("no port was tried");
    for _ in 0..16 {
        let listener = tcp::listen(address)?;
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

fn line(from: SocketAddr, result: Result<Summary, Error>) -> String {
    match result {
        Ok(summary) => {
            let seconds = summary.elapsed.as_secs_f64();
            let (entries, bytes) = (summary.entries, summary.bytes);
            format!("{from}: {entries} entries, {bytes} bytes in {seconds:.2} s")
        }
        Err(error) => format!("{from}: {error}"),
    }
}
