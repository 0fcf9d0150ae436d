//! Network service: accepts connections, and triggers changes that are due.
//!
//! [`Server`] answers HTTP requests, with TLS unless it serves this host alone. Each connection has
//! a slot of its address, and limits of time and memory. A separate task makes changes of the books
//! at their times, so a reservation expires even if no client asks.
#![expect(clippy::disallowed_methods, reason = "a service listens")]

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use lighthaul_booking::books::Books;
use lighthaul_booking::error::{Result, SetupError};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::poller::raise_open_file_limit;
use lighthaul_nsi::provider::Provider;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::api::router::router;
use crate::api::{ApiState, Forwarder, Peer};
use crate::certificate::ServerCertificate;
use crate::circuits::Circuits;
use crate::connections::{Connection, Connections, Limits};
use crate::identity::Authenticator;
use crate::jobs::JobDesk;
use crate::nsi::NsiThreads;
use crate::write_timeout::WriteTimeout;

/// Settings of a scheduler.
#[derive(Debug)]
pub struct Settings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Certificate of the server.
    pub certificate: ServerCertificate,
    /// True if tokens may be sent without TLS over a network.
    pub insecure: bool,
    /// Authentication of clients.
    pub authenticator: Authenticator,
    /// Reservations.
    pub books: Arc<Books>,
    /// Queue of jobs, if any.
    pub jobs: Option<JobDesk>,
    /// Maximum number of requests a second of each name.
    pub requests_per_second: u32,
    /// Limits on connections.
    pub limits: Limits,
    /// Other instances that are trusted.
    pub peers: ServerTrust,
    /// Circuits to provision, if any.
    pub circuits: Option<Circuits>,
    /// Provider of NSI, if any.
    pub nsi: Option<Arc<Provider>>,
}

/// Scheduler that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    state: ApiState,
    router: Router,
    runtime: Runtime,
    /// Signals that stop the service, received from the start on.
    stops: [Signal; 2],
    circuits: Option<Circuits>,
    connections: Connections,
    nsi: Option<Arc<Provider>>,
}

impl Server {
    /// Binds the address; [`Self::run`] answers requests.
    pub fn listen(settings: Settings) -> Result<Self> {
        let tls = settings.certificate.config()?;
        if tls.is_none() && !settings.insecure && !settings.listen.ip().is_loopback() {
            return Err(SetupError::Insecure(settings.listen).into());
        }
        let listener = TcpListener::bind(settings.listen).map_err(|why| {
            let address = settings.listen;
            io::Error::other(format!(
                "cannot listen on {address}: {why}; choose another address"
            ))
        })?;
        listener.set_nonblocking(true)?;
        let forwarder =
            Forwarder::new(settings.peers, settings.insecure).map_err(io::Error::other)?;
        let state = ApiState::new(
            settings.books,
            settings.jobs,
            settings.authenticator,
            settings.requests_per_second,
        );
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(BLOCKING_THREADS)
            .enable_all()
            .build()?;
        let stops = {
            let _inside = runtime.enter();
            [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
            ]
        };
        Ok(Self {
            stops,
            listener,
            tls,
            router: router(
                state.clone(),
                forwarder,
                &settings.limits,
                settings.nsi.clone(),
            ),
            nsi: settings.nsi,
            connections: Connections::new(Limits {
                connections: connections(settings.limits.connections),
                ..settings.limits
            }),
            state,
            runtime,
            circuits: settings.circuits,
        })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until SIGTERM or SIGINT. Open requests have a moment to end.
    pub fn run(self) -> Result<()> {
        let Self {
            listener,
            tls,
            state,
            router,
            runtime,
            stops: [mut terminated, mut interrupted],
            circuits,
            connections,
            nsi,
        } = self;
        let circuit_thread = circuits.map(CircuitThread::start).transpose()?;
        let nsi_threads = nsi.map(NsiThreads::start).transpose()?;
        // keeps a reference to the books: a store may have a runtime of its own, which must not be
        // dropped inside this one
        let last = state.clone();
        let stopped = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            if state.has_jobs() {
                tokio::spawn(look_after_jobs(state.clone()));
            }
            tokio::spawn(tick(state));
            tokio::spawn(accept(
                listener,
                tls.map(TlsAcceptor::from),
                router,
                connections,
            ));
            let either = std::pin::pin!(terminated.recv());
            let or = std::pin::pin!(interrupted.recv());
            futures_util::future::select(either, or).await;
            // drivers wait no longer for devices that do not answer
            interrupt::request();
            Ok::<(), io::Error>(())
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        drop((circuit_thread, nsi_threads, last));
        Ok(stopped?)
    }
}

/// Returns the number of connections that the limit of open files allows, at most `most`. A quarter
/// of the files is for the store, devices and issuers.
fn connections(most: usize) -> usize {
    let files = usize::try_from(raise_open_file_limit()).unwrap_or(usize::MAX);
    most.min(files - files / 4)
}

/// Thread that provisions circuits. On drop it removes them, unless other schedulers share the store.
#[derive(Debug)]
struct CircuitThread {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CircuitThread {
    fn start(circuits: Circuits) -> io::Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_ending);
        let thread = thread::Builder::new()
            .name("circuits".to_owned())
            .spawn(move || {
                while !ending.load(Ordering::Relaxed) {
                    let till = circuits.clock().now() + UPDATE_INTERVAL;
                    if let Err(why) = circuits.update().and_then(|()| circuits.wait(till)) {
                        warn!("cannot update the circuits: {why}");
                        thread::park_timeout(RETRY_DELAY);
                    }
                }
            })?;
        Ok(Self {
            is_ending,
            thread: Some(thread),
        })
    }
}

impl Drop for CircuitThread {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // the thread has logged the fault
            thread.join().ok();
        }
    }
}

/// Makes changes of the books when they are due.
async fn tick(state: ApiState) {
    let mut changes = state.subscribe();
    loop {
        changes.borrow_and_update();
        match state.with_books(Books::tick).await {
            Ok(due) => {
                let wait = Duration::from_nanos(due.0.saturating_sub(ApiState::now().0));
                // a new reservation may be due earlier
                timeout(wait.max(TICK_DELAY_MIN), changes.changed())
                    .await
                    .ok();
            }
            Err(why) => {
                warn!("cannot make a change that is due: {}", why.detail());
                sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Looks after the queue at intervals.
async fn look_after_jobs(state: ApiState) {
    loop {
        state.look_after_jobs().await;
        sleep(LOOK_INTERVAL).await;
    }
}

/// Accepts connections within the limits of `connections`.
async fn accept(
    listener: tokio::net::TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    connections: Connections,
) {
    // time at which a failure was last logged
    let mut last = None;
    loop {
        match listener.accept().await {
            Ok((tcp, peer)) => {
                let (tls, router) = (tls.clone(), router.clone());
                let Some(connection) = connections.admit(peer.ip()) else {
                    continue;
                };
                let connection = Arc::new(connection);
                tokio::spawn(async move {
                    let ended = std::pin::pin!(connection.ended());
                    let talk =
                        std::pin::pin!(serve_connection(tcp, &connection, peer, tls, router));
                    futures_util::future::select(ended, talk).await;
                });
            }
            Err(why) => {
                if last.is_none_or(|last: tokio::time::Instant| last.elapsed() >= RETRY_DELAY) {
                    warn!("cannot accept a connection: {why}");
                    last = Some(tokio::time::Instant::now());
                }
                connections.end_idlest();
                sleep(ACCEPT_DELAY).await;
            }
        }
    }
}

/// Serves one connection, with TLS if configured.
async fn serve_connection(
    tcp: TcpStream,
    connection: &Arc<Connection>,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
) {
    tcp.set_nodelay(true).ok();
    let time_limit = connection.limits().time_limit;
    let line = Peer(peer.ip(), Arc::clone(connection));
    let router = router.layer(Extension(line));
    let Some(tls) = tls else {
        return serve_http(tcp, connection, router).await;
    };
    match timeout(time_limit, tls.accept(tcp)).await {
        Ok(Ok(stream)) => serve_http(stream, connection, router).await,
        Ok(Err(why)) => debug!("{peer} does not speak TLS: {why}"),
        Err(_) => debug!("{peer} did not finish the TLS handshake in time"),
    }
}

/// Answers requests until the client disconnects or stops reading.
async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connection: &Arc<Connection>,
    router: Router,
) {
    let service = TowerToHyperService::new(router);
    let time_limit = connection.limits().time_limit;
    let stream = WriteTimeout::new(stream, Arc::clone(connection), time_limit);
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(time_limit)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(why) = conversation.await {
        debug!("a connection has failed: {why}");
    }
}

const THREADS: usize = 2;
/// Each waits for the books or an issuer, which serve one request at a time.
const BLOCKING_THREADS: usize = 32;
/// Maximum length of a request head with read-ahead. Two tokens of maximum length fit.
const HEAD_MAX: usize = 64 << 10;
/// Delay after a failed accept, so that other connections can end.
const ACCEPT_DELAY: Duration = Duration::from_millis(10);
/// Minimum delay between due changes, so that a failing change does not occupy a processor.
const TICK_DELAY_MIN: Duration = Duration::from_millis(5);
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Interval between looks at the queue of jobs.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum delay before a reservation is provisioned.
const UPDATE_INTERVAL: Duration = Duration::from_millis(50);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
