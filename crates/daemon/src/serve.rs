//! The daemon: one TCP and one UDP port of the same number, and a thread for every session.
//!
//! A [`Server`] accepts clients until a stop is requested. [`serve_once`] serves one session for a
//! client that started the daemon over ssh. A connection passes these stages, and each has its own
//! limit:
//!
//! ```text
//! accept queue -> handshake slot -> admit -> allocation -> serve_client
//!  (1 file)       (8 files)         (key)    (resources)   (request)
//! ```
//!
//! UDP datagrams of probes go to `ProbeRouter`. After a stop, sessions have 10 s to end.

use std::io::{self, BufRead};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, PortRange, counted, seats};
use lighthaul_copy::watch::Summary;
use lighthaul_io::crypto::identity::{NotAFingerprint, random_octets};
use lighthaul_io::crypto::tls;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::poller::raise_open_file_limit;
use lighthaul_io::net::tcp;
use lighthaul_io::net::udp::Udp;
use lighthaul_session::error::Error;
use tracing::{debug, field, info, info_span, warn};

use crate::accept_queue::{self, AcceptQueue, HostRecords, Incoming};
use crate::admission::{AdmittedClient, CLOSE_TIMEOUT, NotAdmitted, admit};
use crate::attempts::Attempts;
use crate::authorizer::Authorizer;
use crate::cost::{Cost, RESOURCES};
use crate::error::Fault;
use crate::exporter;
use crate::greeting::GREETING;
use crate::handshakes::{self, Handshakes};
use crate::invitation::Invitations;
use crate::joins::Joins;
use crate::metrics::{Metrics, Refusal};
use crate::probe_router::ProbeRouter;
use crate::recent_hosts::unix_seconds;
use crate::refused_keys::RefusedKeys;
use crate::resource_pool::{Allocation, ResourcePool};
use crate::service::Service;
use crate::session::{Served, serve_client};
use crate::settings::{AccessPolicy, Limits, Settings};

/// Interval at which the listener checks for a stop request.
const ACCEPT_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval at which the lists of keys are read again while no client connects.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the recent hosts are written.
const SAVE_INTERVAL: Duration = Duration::from_mins(1);
/// Files of a connection in the handshake.
const FILES_OF_HANDSHAKE: u64 = 8;
/// Files of the daemon itself: sockets, lists and log.
const FILES_OWN: u64 = 64;
/// Files that are reserved for sessions that lost their resources and have not ended yet.
const FILES_ENDING_MAX: u64 = 4096;
/// Time for sessions to end after a stop request.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

impl Limits {
    /// Returns the limits of each resource for a process that may have `files` open files.
    fn of_resources(&self, files: u64) -> [seats::Limits; RESOURCES] {
        let kept = FILES_OWN + (files / 16).min(FILES_ENDING_MAX);
        let unauthenticated = accept_queue_max(files) + handshakes_max(files) * FILES_OF_HANDSHAKE;
        let files = self.files.min(files.saturating_sub(kept + unauthenticated));
        [
            self.sessions,
            self.connections,
            seats::Limits::parts_of(self.memory >> 20),
            seats::Limits::parts_of(self.threads),
            seats::Limits::parts_of(files),
        ]
    }
}

/// Returns the size of the accept queue for a process with `files` open files. Each connection uses one.
fn accept_queue_max(files: u64) -> u64 {
    (files / 8).min(accept_queue::CONNECTIONS_MAX)
}

/// Returns the number of handshake slots for a process with `files` open files.
fn handshakes_max(files: u64) -> u64 {
    (files / 8 / FILES_OF_HANDSHAKE).clamp(1, handshakes::HANDSHAKES_MAX)
}

/// Daemon that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    service: Arc<Service>,
    files: u64,
}

/// Result of a daemon that serves one session.
type Ended = Result<(), Error>;

impl Server {
    /// Listens for TCP and UDP on one port; for port 0, on a port that is free for both, within the range of the
    /// settings.
    pub fn listen(settings: Settings) -> io::Result<Self> {
        let (listener, udp) = match settings.ports {
            Some(ports) if settings.address.port() == 0 => {
                bind_within(ports, settings.address.ip())?
            }
            _ => bind_both(settings.address)?,
        };
        // a client may close its connection between the poller's event and `accept`
        listener.set_nonblocking(true)?;
        let metrics = match &settings.gateway {
            Some(gateways) => Metrics::of_gateway(Arc::clone(gateways)),
            None => Metrics::new(),
        };
        let files = raise_open_file_limit();
        let limits = match (&settings.access, &settings.gateway) {
            // there is only one client, so nothing is shared
            (AccessPolicy::Only(_), _) => [seats::Limits::parts_of(u64::MAX); RESOURCES],
            (AccessPolicy::Listed { .. }, None) => settings.limits.of_resources(files),
            // most files are for the sessions of programs
            (AccessPolicy::Listed { .. }, Some(_)) => {
                let mut limits = settings.limits;
                limits.files = limits.files.min(files / 4);
                limits.of_resources(files)
            }
        };
        let known = HostRecords::default();
        if let Some(file) = settings.recent_hosts() {
            match known.recent_hosts.load(&file, unix_seconds()) {
                Ok(true) => {}
                Ok(false) => warn!("ignored damaged lines of {}", file.display()),
                Err(error) => warn!("cannot read {}: {error}", file.display()),
            }
        }
        let service = Arc::new(Service {
            authorizer: Authorizer::of(&settings.access),
            settings,
            probes: ProbeRouter::default(),
            metrics: Arc::new(metrics),
            invitations: Invitations::default(),
            joins: Joins::default(),
            attempts: Attempts::default(),
            pool: ResourcePool::new(limits),
            known,
            handshakes: Handshakes::start(handshakes_max(files))?,
            refused_keys: RefusedKeys::default(),
            paths: Arc::default(),
            clock: Clock::start(),
        });
        let dispatch = Arc::clone(&service);
        thread::Builder::new()
            .name("probes".into())
            .spawn(move || dispatch.probes.run(&udp))?;
        Ok(Self {
            listener,
            service,
            files,
        })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the state that all sessions share.
    #[cfg(test)]
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Starts the HTTP server of `/metrics` at `address`. Returns its address.
    pub fn show_metrics(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let metrics = Arc::clone(&self.service.metrics);
        exporter::start(address, metrics)
    }

    /// Serves clients until a stop is requested. Then the sessions end with an error that asks to try again.
    pub fn run(&self) -> io::Result<()> {
        let service = &self.service;
        let goes_on = || !interrupt::is_requested();
        let keeping = Arc::clone(service);
        // a slow disk must not keep callers waiting
        thread::Builder::new()
            .name("recent hosts".into())
            .spawn(move || keeping.keep_recent_hosts(goes_on))?;
        self.accept_clients(&goes_on, |incoming| {
            let (service, from) = (Arc::clone(service), incoming.from);
            let thread = thread::Builder::new().name("session".into());
            if let Err(error) = thread.spawn(move || service.serve(incoming)) {
                warn!("cannot serve {from}: {error}");
            }
        })?;
        let until = service.clock.now() + STOP_TIMEOUT;
        let stores = service.settings.stores.values().cloned();
        let closing = stores.map(|store| thread::spawn(move || store.close(STOP_TIMEOUT)));
        let closing: Vec<_> = closing.collect();
        let sessions = || service.pool.allocated();
        info!(
            "stopping {}",
            counted(sessions() as u64, "session", "sessions")
        );
        while sessions() > 0 && service.clock.now() < until {
            thread::park_timeout(ACCEPT_TIMEOUT / 4);
        }
        for store in closing {
            store.join().ok();
        }
        service.save_recent_hosts();
        Ok(())
    }

    /// Passes connections that may start the handshake to `receive`, while `goes_on` returns true.
    fn accept_clients(
        &self,
        goes_on: &dyn Fn() -> bool,
        receive: impl Fn(Incoming),
    ) -> io::Result<()> {
        let service = &self.service;
        let (handshakes, known) = (Arc::clone(&service.handshakes), service.known.clone());
        let most = accept_queue_max(self.files);
        let mut queue = AcceptQueue::new(&self.listener, handshakes, known, most)?;
        let now = || service.clock.now();
        let mut looked = Instant::ZERO;
        while goes_on() {
            match queue.wait(&self.listener, ACCEPT_TIMEOUT, now) {
                Ok(incoming) => incoming.into_iter().for_each(&receive),
                Err(error) => {
                    warn!("cannot accept a connection: {error}");
                    thread::park_timeout(ACCEPT_TIMEOUT);
                }
            }
            let dropped = queue.dropped();
            service.metrics.refuse(Refusal::Evicted, dropped.evicted);
            service.metrics.refuse(Refusal::Handshake, dropped.invalid);
            service.handshakes.sweep(now());
            if now().since(looked) >= LIST_INTERVAL {
                looked = now();
                service.authorizer.reload();
            }
        }
        Ok(())
    }

    /// Serves the first request of the admitted client, and reports its end to `done`. Refused clients have no effect.
    fn run_once(&self, served: &Arc<AtomicBool>, done: &SyncSender<Ended>) -> Ended {
        let goes_on = || served.load(Ordering::Relaxed) || !interrupt::is_requested();
        let taken = self.accept_clients(&goes_on, |incoming| {
            let service = Arc::clone(&self.service);
            let (served, done) = (Arc::clone(served), done.clone());
            thread::spawn(move || {
                let Ok(client) = admit(incoming.tcp, &service) else {
                    return;
                };
                drop(incoming.slot);
                let allocation = match service.allocation(&client, incoming.from) {
                    Ok(allocation) => allocation,
                    Err(error) => return client.session.give_up_within(&error, CLOSE_TIMEOUT),
                };
                served.store(true, Ordering::Relaxed);
                // errors go to the client only, since both sides may share a terminal
                match serve_client(client, allocation, &service) {
                    Served::Ended(_) => done.send(Ok(())).unwrap_or_default(),
                    // of two connections, the client uses the first that succeeds
                    Served::Joined(_) | Served::Unused(_) => {}
                }
            });
        });
        taken.map_err(Fault::Accept)?;
        Ok(interrupt::check()?)
    }
}

impl Service {
    /// Writes the recent hosts once a minute, while `goes_on` returns true.
    fn keep_recent_hosts(&self, goes_on: impl Fn() -> bool) {
        let mut saves_at = self.clock.now() + LIST_INTERVAL;
        while goes_on() {
            thread::park_timeout(LIST_INTERVAL);
            if self.clock.now() >= saves_at {
                saves_at = self.clock.now() + SAVE_INTERVAL;
                self.save_recent_hosts();
            }
        }
    }

    fn save_recent_hosts(&self) {
        let Some(file) = self.settings.recent_hosts() else {
            return;
        };
        if let Err(error) = self.known.recent_hosts.save(&file) {
            debug!("cannot write {}: {error}", file.display());
        }
    }

    /// Serves one session, from the handshake to its end.
    fn serve(&self, incoming: Incoming) {
        let Incoming { tcp, from, slot } = incoming;
        let span = info_span!("session", %from, client = field::Empty);
        let _within = span.enter();
        let client = match admit(tcp, self) {
            Ok(client) => client,
            Err(why) => return self.refuse(why, from),
        };
        self.known.recent_hosts.remember(from.ip(), unix_seconds());
        self.known.failed_sites.remove(from.ip());
        span.record("client", &client.rights.name);
        let allocation = match self.allocation(&client, from) {
            Ok(allocation) => allocation,
            Err(error) => {
                self.metrics.refuse(Refusal::Busy, 1);
                // the handshake slot is kept, so that few refused clients wait at a time
                client.session.give_up_within(&error, CLOSE_TIMEOUT);
                warn!("refused: {error}");
                return;
            }
        };
        drop(slot);
        match serve_client(client, allocation, self) {
            Served::Joined(Ok(())) => debug!("joined a session"),
            Served::Ended(Ok(summary)) => {
                info!("{}", described(&summary));
            }
            Served::Joined(Err(error)) | Served::Ended(Err(error)) | Served::Unused(error) => {
                warn!("{error}");
            }
        }
    }

    /// Allocates resources for a client that has not sent its request yet.
    fn allocation(&self, client: &AdmittedClient, from: SocketAddr) -> Result<Allocation, Error> {
        let holder = (client.identity, from.ip());
        self.pool
            .allocate(holder, Cost::CLIENT, &client.session.halt)
    }

    fn refuse(&self, why: NotAdmitted, from: SocketAddr) {
        self.known.failed_sites.add(from.ip(), self.clock.now());
        let is_new = |key| self.refused_keys.is_new(key, from.ip(), self.clock.now());
        match why {
            NotAdmitted::Handshake(error) => {
                self.metrics.refuse(Refusal::Handshake, 1);
                debug!("{error}");
            }
            NotAdmitted::Unknown(key) => {
                self.known.recent_hosts.forget(from.ip());
                self.metrics.refuse(Refusal::Key, 1);
                if is_new(key) {
                    let options = self.allow_options();
                    warn!(
                        "refused unknown key {key} (logged once); `lighthaul allow {options}{key}` allows it"
                    );
                }
            }
            NotAdmitted::Refused(key, error) => {
                self.known.recent_hosts.forget(from.ip());
                self.metrics.refuse(Refusal::Key, 1);
                if is_new(key) {
                    warn!("refused key {key} (logged once): {error}");
                }
            }
        }
    }
}

/// Reads the client's key from standard input, writes the port to standard output, and serves one session.
pub fn serve_once(mut settings: Settings, out: &mut dyn io::Write) -> Result<(), Error> {
    let mut line = String::new();
    let unread = |e: io::Error| Fault::ClientKey(e.to_string());
    io::stdin().lock().read_line(&mut line).map_err(unread)?;
    let parsed = line.parse();
    let client = parsed.map_err(|e: NotAFingerprint| Fault::ClientKey(e.to_string()))?;
    settings.access = AccessPolicy::Only(client);
    let key = tls::fingerprint(&settings.identity)?;
    let server = Server::listen(settings).map_err(Fault::Listen)?;
    let port = server.address().map_err(Fault::Listen)?.port();
    writeln!(out, "{GREETING} {port} {key}")
        .and_then(|()| out.flush())
        .map_err(Fault::Listen)?;
    let (done, ended) = sync_channel(1);
    let served = Arc::new(AtomicBool::new(false));
    let (hung_up, busy) = (done.clone(), Arc::clone(&served));
    thread::spawn(move || {
        if let Err(error) = server.run_once(&served, &done) {
            done.send(Err(error)).ok();
        }
    });
    thread::spawn(move || {
        // standard input ends when the client's ssh has ended
        io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
        if busy.load(Ordering::Relaxed) {
            thread::park_timeout(STOP_TIMEOUT);
        }
        hung_up.send(Ok(())).ok();
    });
    ended.recv().unwrap_or_else(|_| Err(Fault::NoResult.into()))
}

/// Binds a listener and a UDP socket to one of `ports` that is free for both.
fn bind_within(ports: PortRange, ip: IpAddr) -> io::Result<(TcpListener, Udp)> {
    // daemons that start at the same time try different ports first
    let seed = u64::from_ne_bytes(random_octets());
    let mut last = io::Error::other("the range has no port");
    for port in ports.ports_from(seed) {
        match bind_both(SocketAddr::from((ip, port))) {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
    }
    let text = format!("no port of {ports} is free: {last}");
    Err(io::Error::new(last.kind(), text))
}

/// Returns the line of the log about a session. A measurement moves bytes without entries.
fn described(summary: &Summary) -> String {
    let seconds = summary.elapsed.as_secs_f64();
    let entries = match summary.entries {
        0 if summary.bytes > 0 => String::new(),
        entries => counted(entries, "entry", "entries") + ", ",
    };
    format!("{entries}{} bytes in {seconds:.2} s", summary.bytes)
}

/// Binds a listener and a UDP socket to one port; for port 0, to a port that is free for both.
fn bind_both(address: SocketAddr) -> io::Result<(TcpListener, Udp)> {
    let mut last = io::Error::other("the range has no port");
    for _ in 0..16 {
        let listener = tcp::listen(address).or_else(|error| {
            // without IPv6 there is no address for both families
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_has_the_number_of_entries_only_for_copies() {
        for (entries, bytes, line) in [
            (0, 2_147_483_648, "2147483648 bytes in 1.50 s"),
            (0, 0, "0 entries, 0 bytes in 1.50 s"),
            (1, 7, "1 entry, 7 bytes in 1.50 s"),
            (2, 7, "2 entries, 7 bytes in 1.50 s"),
        ] {
            let summary = Summary {
                entries,
                bytes,
                elapsed: Duration::from_millis(1500),
                ..Summary::default()
            };
            assert_eq!(described(&summary), line);
        }
    }
}
