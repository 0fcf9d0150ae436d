//! The daemon: one TCP and one UDP port of the same number, a thread for every session.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::clock::Clock;
use lighthaul_io::identity::{Fingerprint, Identity};
use lighthaul_io::interrupt;
use lighthaul_io::probe::connection_of;
use lighthaul_io::tls::Side;
use lighthaul_io::udp::Udp;
use lighthaul_io::wait::{Watch, wait};
use lighthaul_io::{tcp, tls};
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::message::{Hello, Message, Request, VERSION};
use lighthaul_transfer::path::Door;
use lighthaul_transfer::probe;
use lighthaul_transfer::receive::{self, Landing};
use lighthaul_transfer::send;
use lighthaul_transfer::session::Session;
use lighthaul_transfer::sink;
use lighthaul_transfer::walk::walk;
use lighthaul_transfer::watch::{Sight, Summary};

use crate::keys;

/// The word that starts the line in which a far side says where it listens.
pub const GREETING: &str = "lighthaul-1";
/// Sessions at a time; more are turned away.
const SESSIONS_MAX: usize = 256;
/// How often a listener looks whether it is to stop.
const LISTEN: Duration = Duration::from_millis(200);
/// How long sessions get to clean up.
const GRACE: Duration = Duration::from_secs(10);
/// Probes that wait for a session to look at them.
const PROBES_MAX: usize = 64;

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

type Probes = SyncSender<(SocketAddr, Vec<u8>)>;

/// The sessions that wait for probes on the shared port, by their datagrams' number.
#[derive(Debug, Default)]
struct Sessions {
    waiting: Mutex<BTreeMap<u64, Probes>>,
    count: AtomicUsize,
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
                let Ok(session) = greet(tcp, &settings) else {
                    return;
                };
                attended.store(true, Ordering::Relaxed);
                // what goes wrong is said to the caller, whose terminal this one's may be
                attend(session, &settings, &sessions).ok();
                done.send(Ok(())).ok();
            });
        }
    }
}

impl Sessions {
    /// Hands datagrams on the shared port to the sessions that they belong to.
    fn run(&self, udp: &Udp) {
        let clock = Clock::start();
        let mut buffer = vec![0; 1 << 16];
        let mut drops = 0;
        loop {
            let received = match udp.receive_into(&mut buffer, &mut drops) {
                Ok(Some(received)) => received,
                Ok(None) => {
                    let watch = Watch::read(udp.as_raw_fd());
                    if wait(clock, &mut [watch], Instant::NEVER).is_err() {
                        return;
                    }
                    continue;
                }
                Err(_) => continue,
            };
            let Some(from) = received.from else { continue };
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            for datagram in buffer[..received.len].chunks(received.segment_len) {
                let session = connection_of(datagram).and_then(|number| waiting.get(&number));
                if let Some(session) = session {
                    // a session that is behind has probes enough
                    session.try_send((from, datagram.to_vec())).ok();
                }
            }
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
    attend(greet(tcp, settings)?, settings, sessions)
}

/// Shakes hands, and turns away whoever is not welcome.
fn greet(tcp: TcpStream, settings: &Settings) -> Result<Session, Error> {
    let session = Session::start(tcp::patient(tcp)?, Side::Server, &settings.identity)?;
    let peer = session.peer;
    let known = match &settings.welcome {
        Welcome::Only(key) => *key == peer,
        Welcome::Listed(path) => keys::is_allowed(path, peer).unwrap_or(false),
    };
    if known {
        return Ok(session);
    }
    let text = format!(
        "your key is not allowed there; its operator can add it with `lighthaul allow {peer}`"
    );
    let error = Error::new(Code::Permission, text);
    session.give_up(&error);
    Err(error)
}

/// Does what a welcome caller wants; a failure is told to the caller, too.
fn attend(mut session: Session, settings: &Settings, sessions: &Sessions) -> Result<Summary, Error> {
    let result = admit(&session).and_then(|hello| fulfil(&mut session, hello, settings, sessions));
    if let Err(error) = &result {
        session.give_up(error);
    }
    result
}

/// What the caller wants.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else a peer says is out of turn"
)]
fn admit(session: &Session) -> Result<Hello, Error> {
    match session.hear()? {
        Message::Hello(hello) if hello.version == VERSION => Ok(hello),
        Message::Hello(hello) => {
            let text = format!("they speak version {VERSION} there, not {}", hello.version);
            Err(Error::new(Code::Protocol, text))
        }
        _ => Err(Error::new(
            Code::Protocol,
            "the client did not say what it wants",
        )),
    }
}

fn fulfil(
    session: &mut Session,
    hello: Hello,
    settings: &Settings,
    sessions: &Sessions,
) -> Result<Summary, Error> {
    if hello.plain && !settings.plain {
        let text = "plain datagrams are refused there; leave out --plain, or serve with --plain";
        return Err(Error::new(Code::Permission, text));
    }
    let number = session.secrets.probe_connection();
    let (probes, arrivals) = sync_channel(PROBES_MAX);
    let lock = || {
        sessions
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    };
    lock().insert(number, probes);
    let door = Door::Called(&arrivals);
    let result = work(session, &door, hello, settings);
    lock().remove(&number);
    result
}

fn work(
    session: &Session,
    door: &Door<'_>,
    hello: Hello,
    settings: &Settings,
) -> Result<Summary, Error> {
    let mut watcher = |_: Sight| {};
    match hello.request {
        Request::Receive(mut target) => {
            target.path = confine(settings, target.path)?;
            let landing = Landing::find(&target, &home(settings))?;
            session.say(&Message::Welcome)?;
            let sink = sink::Settings {
                digest: hello.digest,
                sync: hello.sync,
                transfer: 0,
            };
            let settings = receive::Settings {
                plain: hello.plain,
                sink,
            };
            receive::receive(session, door, landing, settings, &mut watcher)
        }
        Request::Probe(ask) => {
            session.say(&Message::Welcome)?;
            let measured = probe::answer(session, door, ask)?;
            Ok(Summary {
                bytes: measured.bytes,
                ..Summary::default()
            })
        }
        Request::Send(paths) => {
            let mut sources = Vec::new();
            for path in paths {
                let path = confine(settings, path)?;
                sources.push(home(settings).join(os_path(&path)));
            }
            let tree = walk(&sources)?;
            session.say(&Message::Welcome)?;
            let rate = match hello.rate_bps {
                Some(bps) => Some(
                    Rate::from_bps(bps)
                        .ok_or_else(|| Error::new(Code::Usage, "a rate of zero sends nothing"))?,
                ),
                None => None,
            };
            let settings = send::Settings {
                plain: hello.plain,
                digest: hello.digest,
                rate,
            };
            send::send(session, door, tree, settings, &mut watcher)
        }
    }
}

/// Where relative paths start.
fn home(settings: &Settings) -> PathBuf {
    settings.root.clone().unwrap_or_else(|| PathBuf::from("."))
}

/// With a root, every path is one below it, wherever links lead.
fn confine(settings: &Settings, path: Vec<u8>) -> Result<Vec<u8>, Error> {
    let Some(root) = &settings.root else {
        return Ok(path);
    };
    let start = path.iter().position(|octet| *octet != b'/');
    let path = path[start.unwrap_or(path.len())..].to_vec();
    let full = root.join(os_path(&path));
    let up = path.split(|octet| *octet == b'/').any(|part| part == b"..");
    // what is not there yet will be where its folder is
    let place = fs::canonicalize(&full).or_else(|error| match full.parent() {
        Some(folder) => fs::canonicalize(folder),
        None => Err(error),
    });
    let out = match (fs::canonicalize(root), place) {
        (Ok(root), Ok(place)) => !place.starts_with(root),
        // opening it will say why
        _ => false,
    };
    if up || out {
        let text = format!("{} leaves the root", String::from_utf8_lossy(&path));
        return Err(Error::new(Code::Permission, text));
    }
    Ok(path)
}

fn os_path(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}

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
