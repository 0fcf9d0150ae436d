//! The daemon: one TCP and one UDP port of the same number, a thread for every session.

use std::io::{self, BufRead};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, seats};
use lighthaul_io::crypto::tls;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::poller::raise_open_file_limit;
use lighthaul_io::net::tcp;
use lighthaul_io::net::udp::Udp;
use lighthaul_session::error::{Code, Error};
use tracing::{debug, field, info, info_span, warn};

use crate::accept_queue::{self, AcceptQueue, Incoming};
use crate::admission::{AdmittedClient, FAREWELL, NotAdmitted, admit};
use crate::attempts::Attempts;
use crate::authorizer::Authorizer;
use crate::cost::{Cost, RESOURCES};
use crate::exporter;
use crate::greeting::GREETING;
use crate::handshakes::{self, Handshakes};
use crate::invitation::Invitations;
use crate::joins::Joins;
use crate::metrics::{Metrics, Refusal};
use crate::probe_router::ProbeRouter;
use crate::refused_keys::RefusedKeys;
use crate::resource_pool::{Allocation, ResourcePool};
use crate::service::Service;
use crate::session::{Served, serve_client};
use crate::settings::{AccessPolicy, Limits, Settings};

/// How often a listener looks whether it is to stop.
const LISTEN: Duration = Duration::from_millis(200);
/// How often lists are looked at while nobody calls.
const LISTS: Duration = Duration::from_secs(1);
/// Files of a caller that shakes hands.
const FILES_OF_HANDSHAKE: u64 = 8;
/// Files of the daemon itself: its sockets, lists and log.
const FILES_OWN: u64 = 64;
/// Files that are kept for sessions that have lost their seats and not ended yet.
const FILES_LEAVING_MAX: u64 = 4096;
/// How long sessions get to clean up.
const GRACE: Duration = Duration::from_secs(10);

impl Limits {
    /// Limits of each resource on a host that lets this process have so many files.
    fn of_resources(&self, files: u64) -> [seats::Limits; RESOURCES] {
        let kept = FILES_OWN + (files / 16).min(FILES_LEAVING_MAX);
        let strangers = accept_queue_max(files) + handshakes_max(files) * FILES_OF_HANDSHAKE;
        let files = self.files.min(files.saturating_sub(kept + strangers));
        [
            self.sessions,
            self.connections,
            seats::Limits::parts_of(self.memory >> 20),
            seats::Limits::parts_of(self.threads),
            seats::Limits::parts_of(files),
        ]
    }
}

/// Callers that may wait for their turn where this process may have so many files, each with one.
fn accept_queue_max(files: u64) -> u64 {
    (files / 8).min(accept_queue::CALLERS_MAX)
}

/// Callers that may shake hands where this process may have so many files.
fn handshakes_max(files: u64) -> u64 {
    (files / 8 / FILES_OF_HANDSHAKE).clamp(1, handshakes::CALLERS_MAX)
}

/// A daemon that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    service: Arc<Service>,
    files: u64,
}

/// How a daemon that serves once ended.
type Ended = Result<(), Error>;

impl Server {
    /// Listens for TCP and UDP on one port; port 0 takes any that is free for both.
    pub fn listen(settings: Settings) -> io::Result<Self> {
        let (listener, udp) = bind_both(settings.address)?;
        // a caller may be dropped again between the sign that it is there and its being taken
        listener.set_nonblocking(true)?;
        let metrics = match &settings.gateway {
            Some(gateways) => Metrics::of_gateway(Arc::clone(gateways)),
            None => Metrics::new(),
        };
        let files = raise_open_file_limit();
        let limits = match (&settings.access, &settings.gateway) {
            // there is one caller, which shares with none
            (AccessPolicy::Only(_), _) => [seats::Limits::parts_of(u64::MAX); RESOURCES],
            (AccessPolicy::Listed { .. }, None) => settings.limits.of_resources(files),
            // most files are for the sessions of programs
            (AccessPolicy::Listed { .. }, Some(_)) => {
                let mut limits = settings.limits;
                limits.files = limits.files.min(files / 4);
                limits.of_resources(files)
            }
        };
        let service = Arc::new(Service {
            authorizer: Authorizer::of(&settings.access),
            settings,
            probes: ProbeRouter::default(),
            metrics: Arc::new(metrics),
            invitations: Invitations::default(),
            joins: Joins::default(),
            attempts: Attempts::default(),
            pool: ResourcePool::new(limits),
            recent_hosts: Arc::default(),
            handshakes: Handshakes::start(handshakes_max(files))?,
            refused_keys: RefusedKeys::default(),
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

    /// The address it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the state that all its sessions share.
    #[cfg(test)]
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Shows `/metrics` at `address` from now on; answers where that is.
    pub fn show_metrics(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        exporter::start(address, Arc::clone(&self.service.metrics))
    }

    /// Serves whoever calls, until somebody asks to stop; then sessions tell their callers to come again.
    pub fn run(&self) -> io::Result<()> {
        let service = &self.service;
        let goes_on = || !interrupt::is_requested();
        self.take_callers(&goes_on, |incoming| {
            let (service, from) = (Arc::clone(service), incoming.from);
            let thread = thread::Builder::new().name("session".into());
            if let Err(error) = thread.spawn(move || service.serve(incoming)) {
                warn!("{from} could not be served: {error}");
            }
        })?;
        let until = service.clock.now() + GRACE;
        let sessions = || service.pool.allocated();
        info!("stopping, with {} sessions to end", sessions());
        while sessions() > 0 && service.clock.now() < until {
            thread::park_timeout(LISTEN / 4);
        }
        Ok(())
    }

    /// Has `receive` take everybody who has begun to shake hands, for as long as `goes_on` says.
    fn take_callers(
        &self,
        goes_on: &dyn Fn() -> bool,
        receive: impl Fn(Incoming),
    ) -> io::Result<()> {
        let service = &self.service;
        let (handshakes, recent_hosts) = (
            Arc::clone(&service.handshakes),
            Arc::clone(&service.recent_hosts),
        );
        let mut queue = AcceptQueue::new(
            &self.listener,
            handshakes,
            recent_hosts,
            accept_queue_max(self.files),
        )?;
        let now = || service.clock.now();
        let mut looked = Instant::ZERO;
        while goes_on() {
            match queue.wait(&self.listener, LISTEN, now) {
                Ok(incoming) => incoming.into_iter().for_each(&receive),
                Err(error) => {
                    warn!("a call could not be taken: {error}");
                    thread::park_timeout(LISTEN);
                }
            }
            let dropped = queue.dropped();
            service.metrics.refuse(Refusal::Handshakes, dropped.evicted);
            service.metrics.refuse(Refusal::Handshake, dropped.invalid);
            service.handshakes.sweep(now());
            if now().since(looked) >= LISTS {
                looked = now();
                service.authorizer.reload();
            }
        }
        Ok(())
    }

    /// Serves the first caller that is welcome, and says when that is over; strangers change nothing.
    fn run_once(&self, served: &Arc<AtomicBool>, done: &SyncSender<Ended>) -> Ended {
        let goes_on = || served.load(Ordering::Relaxed) || !interrupt::is_requested();
        let taken = self.take_callers(&goes_on, |incoming| {
            let service = Arc::clone(&self.service);
            let (served, done) = (Arc::clone(served), done.clone());
            thread::spawn(move || {
                let Ok(client) = admit(incoming.tcp, &service) else {
                    return;
                };
                drop(incoming.slot);
                let allocation = match service.allocation(&client, incoming.from) {
                    Ok(allocation) => allocation,
                    Err(error) => return client.session.give_up_within(&error, FAREWELL),
                };
                served.store(true, Ordering::Relaxed);
                // what goes wrong is said to the caller, whose terminal this one's may be
                if !matches!(
                    serve_client(client, allocation, &service),
                    Served::Joined(_)
                ) {
                    done.send(Ok(())).ok();
                }
            });
        });
        taken.map_err(|e| Error::new(Code::Network, format!("no call could be taken: {e}")))?;
        Ok(interrupt::check()?)
    }
}

impl Service {
    /// One session, from the handshake to the verdict.
    fn serve(&self, incoming: Incoming) {
        let Incoming { tcp, from, slot } = incoming;
        let span = info_span!("session", %from, who = field::Empty);
        let _within = span.enter();
        let client = match admit(tcp, self) {
            Ok(client) => client,
            Err(why) => return self.refuse(why, from),
        };
        self.recent_hosts.remember(from.ip(), self.clock.now());
        span.record("who", &client.rights.name);
        let allocation = match self.allocation(&client, from) {
            Ok(allocation) => allocation,
            Err(error) => {
                self.metrics.refuse(Refusal::Busy, 1);
                // which keeps its slot, so that few wait for this at a time
                client.session.give_up_within(&error, FAREWELL);
                warn!("turned away: {error}");
                return;
            }
        };
        drop(slot);
        match serve_client(client, allocation, self) {
            Served::Joined(Ok(())) => debug!("joined a session"),
            Served::Ended(Ok(summary)) => {
                let seconds = summary.elapsed.as_secs_f64();
                let (entries, bytes) = (summary.entries, summary.bytes);
                info!("{entries} entries, {bytes} bytes in {seconds:.2} s");
            }
            Served::Joined(Err(error)) | Served::Ended(Err(error)) => warn!("{error}"),
        }
    }

    /// Takes a allocation for a caller that has not said yet whether it opens a session or joins one.
    fn allocation(&self, client: &AdmittedClient, from: SocketAddr) -> Result<Allocation, Error> {
        let holder = (client.identity, from.ip());
        self.pool
            .allocate(holder, Cost::CALLER, &client.session.halt)
    }

    fn refuse(&self, why: NotAdmitted, from: SocketAddr) {
        let is_new = |key| self.refused_keys.is_new(key, from.ip(), self.clock.now());
        match why {
            NotAdmitted::Handshake(error) => {
                self.metrics.refuse(Refusal::Handshake, 1);
                debug!("{error}");
            }
            NotAdmitted::Unknown(key) => {
                self.metrics.refuse(Refusal::Key, 1);
                if is_new(key) {
                    let options = self.allow_options();
                    warn!(
                        "refused unknown key {key} (logged once); `lighthaul allow {options}{key}` lets it in"
                    );
                }
            }
            NotAdmitted::Refused(key, error) => {
                self.metrics.refuse(Refusal::Key, 1);
                if is_new(key) {
                    warn!("refused key {key} (logged once): {error}");
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
    settings.access = AccessPolicy::Only(caller);
    let key = tls::fingerprint(&settings.identity)?;
    let listening =
        |e: io::Error| Error::new(Code::Network, format!("no port could be opened: {e}"));
    let server = Server::listen(settings).map_err(listening)?;
    let port = server.address().map_err(listening)?.port();
    writeln!(out, "{GREETING} {port} {key}")
        .and_then(|()| out.flush())
        .map_err(listening)?;
    let (done, ended) = sync_channel(1);
    let served = Arc::new(AtomicBool::new(false));
    let (hung_up, busy) = (done.clone(), Arc::clone(&served));
    thread::spawn(move || {
        if let Err(error) = server.run_once(&served, &done) {
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
