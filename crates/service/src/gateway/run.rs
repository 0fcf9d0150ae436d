//! Runs a gateway until it is stopped.
//!
//! [`run`] starts the parts of a gateway in the order of their dependencies, and stops them so that
//! running sessions can end:
//!
//! ```text
//! start   link to the peer, listeners for programs, cluster, server, metrics, status, "ready"
//! stop    cluster and listeners close, sessions drain, server ends, shared address is released
//! ```
//!
//! A gateway has a link to a peer, a server for other gateways, or both. A second signal, or the
//! patience of the settings, ends the remaining sessions.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::counted;
use lighthaul_daemon::gateway_links::{GatewayLinks, OutgoingLink};
use lighthaul_daemon::link_metrics;
use lighthaul_daemon::serve::Server;
use lighthaul_daemon::settings::{self as daemon, AccessPolicy};
use lighthaul_gateway::link_thread;
use lighthaul_gateway::proxy_listeners::Routes;
use lighthaul_gateway::settings::Settings as LinkSettings;
use lighthaul_io::crypto::tls;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Error, joined};
use sd_notify::NotifyState;
use tracing::{info, warn};

use super::link_keeper::LinkKeeper;
use super::listeners::ProgramListeners;
use super::settings::{Peer, Settings};
use super::status_socket::StatusSocket;
use super::{booker, cluster};
use crate::error::Fault;
use crate::metrics::tell_metrics;

/// Carries sessions until the gateway is stopped.
pub fn run(settings: Settings) -> Result<(), Error> {
    let mut links = settings.links;
    let outgoing = match settings.peer {
        Some(peer) => Some((begin(&peer, &links)?, peer)),
        None => None,
    };
    // sessions for other targets continue there
    links.onward = outgoing
        .as_ref()
        .map(|(outgoing, _)| outgoing.handle.clone());
    let gateways = Arc::new(GatewayLinks::new(Arc::new(links)));
    let mut listeners = None;
    let mut cluster = None;
    if let Some((outgoing, peer)) = &outgoing {
        let line = &outgoing.handle;
        if let Some(address) = peer.addresses.first() {
            gateways.add_outgoing(address, line.clone());
        }
        if let Some(booked) = &peer.booked {
            booker::start(booked, line.clone())?;
        }
        let ways = ways(peer, outgoing, &gateways)?;
        let is_served = settings.server.is_some();
        listeners = Some(ProgramListeners::open(peer, ways, is_served)?);
        cluster = cluster::join(peer, line)?;
    }
    let server = match settings.server {
        Some(server) => Some(serve(server, &gateways)?),
        None => None,
    };
    if let Some(address) = settings.metrics {
        let at = match &server {
            Some(server) => server.show_metrics(address),
            None => link_metrics::export(address, &gateways),
        };
        tell_metrics(address, at)?;
    }
    let _board = show(&settings.status_socket, &gateways);
    sd_notify::notify(&[NotifyState::Ready]).ok();
    let server = server.map(|server| thread::spawn(move || server.run().map_err(starting)));
    let keeper = outgoing
        .map(|(outgoing, peer)| LinkKeeper::start(peer, outgoing))
        .transpose()?;
    // both run until the gateway ends, unless they fail
    let parts = [server.as_ref(), keeper.as_ref()];
    let has_failed = || parts.into_iter().flatten().any(JoinHandle::is_finished);
    while !interrupt::is_ending() && !has_failed() {
        thread::park_timeout(LOOK);
    }
    sd_notify::notify(&[NotifyState::Stopping]).ok();
    if let Some(cluster) = &cluster {
        cluster.close();
    }
    listeners.iter_mut().for_each(ProgramListeners::close);
    let is_over = drain(&gateways);
    if let Some(cluster) = &cluster {
        // sessions that remain are cut off below
        cluster.leave(if is_over {
            gateways.settings().patience
        } else {
            Duration::ZERO
        });
    }
    interrupt::request();
    let kept = keeper.map_or(Ok(()), |keeper| joined("link", keeper));
    let served = server.map_or(Ok(()), |server| joined("server", server));
    // the shared address is released only after the last session has ended
    drop((listeners, gateways));
    drop(cluster);
    served.and(kept)
}

/// Starts the link to the other gateway.
fn begin(peer: &Peer, settings: &LinkSettings) -> Result<Arc<OutgoingLink>, Error> {
    let settings = Arc::new(settings.clone());
    let outgoing = OutgoingLink::new(settings, peer.plain).map_err(starting)?;
    Ok(Arc::new(outgoing))
}

/// Returns the routes of sessions: over the link, or directly for near targets.
fn ways(peer: &Peer, outgoing: &OutgoingLink, gateways: &GatewayLinks) -> Result<Routes, Error> {
    let mut ways = Routes {
        link: outgoing.handle.clone(),
        direct: None,
    };
    if peer.is_bypassed {
        let settings = gateways.settings();
        let line = link_thread::start_direct(Arc::clone(settings)).map_err(starting)?;
        gateways.add_outgoing("direct", line.clone());
        ways.direct = Some((Arc::clone(&settings.direct), line));
    }
    Ok(ways)
}

/// Opens the status socket, if a path for it is known.
fn show(path: &Path, gateways: &Arc<GatewayLinks>) -> Option<StatusSocket> {
    match StatusSocket::open(path, gateways) {
        Ok(board) => Some(board),
        Err(error) => {
            let path = path.display();
            warn!(
                "cannot open the status socket {path}: {error}; name another with --status-socket PATH"
            );
            None
        }
    }
}

/// Waits until the last session has ended, for the time `patience` at most. Returns true if no
/// session is left.
fn drain(gateways: &GatewayLinks) -> bool {
    gateways.drain();
    let left = || {
        gateways
            .links()
            .iter()
            .map(|link| link.counters.sessions)
            .sum::<u64>()
    };
    info!(
        "stopping with {}; a second signal ends them",
        counted(left(), "running session", "running sessions")
    );
    let clock = Clock::start();
    let until = clock.now() + gateways.settings().patience;
    while !gateways.is_over() && !interrupt::is_requested() && clock.now() < until {
        thread::park_timeout(LOOK);
    }
    match left() {
        0 => info!("no session is left"),
        left => warn!("ended {}", counted(left, "session", "sessions")),
    }
    left() == 0
}

/// Listens for other gateways.
fn serve(settings: daemon::Settings, gateways: &Arc<GatewayLinks>) -> Result<Server, Error> {
    let address = settings.address;
    let listening = |error| Fault::Listen { address, error };
    let key = tls::fingerprint(&settings.identity)?;
    info!("this gateway's key is {key}");
    if let AccessPolicy::Listed { keys, .. } = &settings.access {
        info!("accepting gateways with keys in {}", keys.display());
    }
    let server = Server::listen(daemon::Settings {
        gateway: Some(Arc::clone(gateways)),
        ..settings
    })
    .map_err(listening)?;
    info!(
        "listening on {} (TCP and UDP)",
        server.address().map_err(listening)?
    );
    Ok(server)
}

fn starting(error: std::io::Error) -> Error {
    Fault::Start(error).into()
}

/// Interval at which signals are checked.
const LOOK: Duration = Duration::from_millis(100);
