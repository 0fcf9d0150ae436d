//! Runs a gateway until it is stopped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lighthaul_base::Size;
use lighthaul_daemon::gateway_links::{GatewayLinks, OutgoingLink};
use lighthaul_daemon::link_metrics;
use lighthaul_daemon::serve::Server;
use lighthaul_daemon::settings::{self as daemon, AccessPolicy};
use lighthaul_gateway::link_thread;
use lighthaul_gateway::proxy_listeners::Routes;
use lighthaul_gateway::settings::{LinkLimits, Settings};
use lighthaul_gateway::target_rules::TargetRules;
use lighthaul_io::crypto::tls;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error};
use sd_notify::NotifyState;
use tracing::{info, warn};

use super::link_keeper::LinkKeeper;
use super::listeners::ProgramListeners;
use super::status;
use super::status_socket::StatusSocket;
use super::{booker, cluster};
use crate::grammar::gateway::{Action, Gateway};
use crate::output::log;
use crate::paths;
use crate::remote::dial::load_key;
use crate::serve::tell_metrics;

/// Carries sessions until it is stopped, or does what else was asked for.
pub(crate) fn run(args: &Gateway) -> Result<(), Error> {
    match &args.action {
        Some(Action::Status(args)) => status::run(args),
        None => carry(args),
    }
}

fn carry(args: &Gateway) -> Result<(), Error> {
    check(args)?;
    let _log = log::start(args.log.log_format)?;
    let mut settings = settings(args)?;
    let outgoing = begin(args, &settings)?;
    // sessions for other targets continue there
    settings.onward = outgoing.as_ref().map(|outgoing| outgoing.handle.clone());
    let gateways = Arc::new(GatewayLinks::new(Arc::new(settings)));
    if let (Some(outgoing), Some(peer)) = (&outgoing, args.peer.first()) {
        gateways.add_outgoing(peer, outgoing.handle.clone());
    }
    if let Some(outgoing) = outgoing.as_ref().filter(|_| args.booked.book) {
        booker::start(args, outgoing.handle.clone())?;
    }
    let mut entrance = match &outgoing {
        Some(outgoing) => Some(ProgramListeners::open(
            args,
            ways(args, outgoing, &gateways)?,
        )?),
        None => None,
    };
    let cluster = match &outgoing {
        Some(outgoing) => cluster::join(args, &outgoing.handle)?,
        None => None,
    };
    let server = match args.listen {
        Some(address) => Some(serve(args, address, &gateways)?),
        None => None,
    };
    if let Some(address) = args.metrics_listen {
        let at = match &server {
            Some(server) => server.show_metrics(address),
            None => link_metrics::export(address, &gateways),
        };
        tell_metrics(address, at)?;
    }
    let _board = show(args, &gateways);
    sd_notify::notify(&[NotifyState::Ready]).ok();
    let server = server.map(|server| thread::spawn(move || server.run().map_err(|e| starting(&e))));
    let keeper = outgoing
        .map(|outgoing| LinkKeeper::start(args, outgoing))
        .transpose()?;
    while !interrupt::is_ending() && server.as_ref().is_none_or(|server| !server.is_finished()) {
        thread::park_timeout(LOOK);
    }
    sd_notify::notify(&[NotifyState::Stopping]).ok();
    if let Some(cluster) = &cluster {
        cluster.close();
    }
    entrance.iter_mut().for_each(ProgramListeners::close);
    let is_over = drain(args, &gateways);
    if let Some(cluster) = &cluster {
        // sessions that remain are cut off below
        cluster.leave(if is_over {
            args.patience
        } else {
            Duration::ZERO
        });
    }
    interrupt::request();
    if let Some(keeper) = keeper {
        keeper.join().ok();
    }
    let outcome = server.map_or(Ok(()), |server| server.join().unwrap_or(Ok(())));
    // sessions end with the last that knows of them, and only then may their address go
    drop((entrance, gateways));
    drop(cluster);
    outcome
}

/// Refuses what cannot be meant.
fn check(args: &Gateway) -> Result<(), Error> {
    let wrong = |text: &str| Err(Error::new(Code::Usage, text));
    if args.listen.is_none() && args.peer.is_empty() {
        return wrong("a gateway needs --listen ADDR, --peer HOST, or both");
    }
    let doors = [args.socks.len(), args.connect.len(), args.forward.len()];
    let is_entrance = doors != [0; 3] || args.capture.transparent;
    if args.peer.is_empty() && is_entrance {
        return wrong("the listeners for programs need another gateway: add --peer HOST");
    }
    Ok(())
}

/// Begins the link to the other gateway, if there is one to call.
fn begin(args: &Gateway, settings: &Settings) -> Result<Option<Arc<OutgoingLink>>, Error> {
    if args.peer.is_empty() {
        return Ok(None);
    }
    let settings = Arc::new(settings.clone());
    let outgoing = OutgoingLink::new(settings, args.plain).map_err(|e| starting(&e))?;
    Ok(Some(Arc::new(outgoing)))
}

/// Returns the ways of sessions: over the link, or directly where that is shorter.
fn ways(args: &Gateway, outgoing: &OutgoingLink, gateways: &GatewayLinks) -> Result<Routes, Error> {
    let mut ways = Routes {
        link: outgoing.handle.clone(),
        direct: None,
    };
    if !args.direct.is_empty() {
        let settings = gateways.settings();
        let line = link_thread::start_direct(Arc::clone(settings)).map_err(|e| starting(&e))?;
        gateways.add_outgoing("direct", line.clone());
        ways.direct = Some((Arc::clone(&settings.direct), line));
    }
    Ok(ways)
}

/// Shows how the gateway is, if there is a place for that.
fn show(args: &Gateway, gateways: &Arc<GatewayLinks>) -> Option<StatusSocket> {
    let path = args.status_socket.clone();
    let path = path.unwrap_or_else(paths::gateway_socket);
    match StatusSocket::open(&path, gateways) {
        Ok(board) => Some(board),
        Err(error) => {
            let path = path.display();
            warn!(
                "`lighthaul gateway status` will not find this gateway at {path}: {error}; give --status-socket PATH"
            );
            None
        }
    }
}

/// Waits until the last session is over or the patience ends. Returns true if no session is left.
fn drain(args: &Gateway, gateways: &GatewayLinks) -> bool {
    gateways.drain();
    let left = || {
        gateways
            .links()
            .iter()
            .map(|link| link.counters.sessions)
            .sum::<u64>()
    };
    info!(
        "stopping with {} running sessions; a second signal ends them",
        left()
    );
    let clock = Clock::start();
    let until = clock.now() + args.patience;
    while !gateways.is_over() && !interrupt::is_requested() && clock.now() < until {
        thread::park_timeout(LOOK);
    }
    match left() {
        0 => info!("no session is left"),
        left => warn!("{left} sessions are cut off"),
    }
    left() == 0
}

fn settings(args: &Gateway) -> Result<Settings, Error> {
    let allowed = TargetRules::new(args.allow.clone());
    let least = Size(MEMORY_MIN);
    if args.memory < least {
        let text = format!(
            "--memory {} is too little: give it at least {least}",
            args.memory
        );
        return Err(Error::new(Code::Usage, text));
    }
    Ok(Settings {
        allowed: Arc::new(allowed),
        direct: Arc::new(TargetRules::new(args.direct.clone())),
        rate: args.rate,
        booked: args.booked.book,
        memory: args.memory,
        slab: args.slab,
        age: args.age,
        patience: args.patience,
        keepalive: args.keepalive,
        sessions_max: args.sessions,
        links: LinkLimits {
            all: args.links.all,
            key: args.links.per_key,
            address: args.links.per_address,
            memory: args.max_memory,
        },
        onward: None,
    })
}

/// Listens for other gateways.
fn serve(
    args: &Gateway,
    address: SocketAddr,
    gateways: &Arc<GatewayLinks>,
) -> Result<Server, Error> {
    let listening = |e| Error::new(Code::Network, format!("cannot listen on {address}: {e}"));
    let identity = load_key(&args.far.key.path.clone().unwrap_or_else(paths::host_key))?;
    let key = tls::fingerprint(&identity)?;
    let allowed = args.allowed.clone().unwrap_or_else(paths::allowed_keys);
    info!("this gateway's key is {key}");
    info!("gateways with keys in {} may call", allowed.display());
    let server = Server::listen(daemon::Settings {
        address,
        identity,
        access: AccessPolicy::Listed {
            keys: allowed,
            tokens: paths::tokens(),
        },
        root: None,
        plain: args.plain,
        relay: false,
        gateway: Some(Arc::clone(gateways)),
        limits: daemon::Limits::default(),
    })
    .map_err(listening)?;
    info!(
        "listening on {} (TCP and UDP)",
        server.address().map_err(listening)?
    );
    Ok(server)
}

fn starting(error: &std::io::Error) -> Error {
    Error::new(
        Code::Network,
        format!("the gateway could not start: {error}"),
    )
}

/// With less, a link has no room for a slab: it takes half of it.
const MEMORY_MIN: u64 = 8 << 20;
/// Interval at which signals are looked for.
const LOOK: Duration = Duration::from_millis(100);
