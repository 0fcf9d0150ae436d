//! Listeners for programs, and the kernel rules that redirect connections to the listeners.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use lighthaul_capture::rules::Rules;
use lighthaul_capture::settings::Transparent;
use lighthaul_capture::transparent::Listeners as CaptureListeners;
use lighthaul_gateway::host_shares::HostShares;
use lighthaul_gateway::proxy_listeners::{
    ProxyListener, ProxyListeners, ProxyProtocol, Routes, listen,
};
use lighthaul_session::error::Error;
use tracing::{info, warn};

use super::settings::{Listeners, Peer};

use crate::error::Fault;

/// Listeners for programs, and the kernel rules that redirect connections to the listeners. [`ProgramListeners::close`]
/// closes them.
#[derive(Debug)]
pub(super) struct ProgramListeners {
    rules: Option<Rules>,
    listeners: Option<ProxyListeners>,
}

impl ProgramListeners {
    /// Opens all configured listeners; sessions use one of `ways`. A gateway without a server for others needs at least
    /// one listener.
    pub(super) fn open(peer: &Peer, ways: Routes, is_served: bool) -> Result<Self, Error> {
        let settings = &peer.listeners;
        let mut listeners = open(settings, peer.shared_address())?;
        let mut rules = None;
        if let Some(wanted) = &settings.transparent {
            let (captured, installed) = capture(wanted)?;
            listeners.extend(captured);
            rules = Some(installed);
        }
        if listeners.is_empty() && !is_served {
            return Err(Fault::NoListener.into());
        }
        let failed = Fault::Accept;
        let shares = HostShares::new(settings.sessions as u64);
        let listeners =
            ProxyListeners::open(listeners, ways, shares, settings.keepalive).map_err(failed)?;
        let listeners = Some(listeners);
        Ok(Self { rules, listeners })
    }

    /// Stops accepting programs, and removes the capture rules.
    pub(super) fn close(&mut self) {
        if let Some(rules) = self.rules.take()
            && let Err(error) = rules.remove()
        {
            warn!("{error}");
        }
        self.listeners = None;
    }
}

fn open(settings: &Listeners, shared: Option<Ipv4Addr>) -> Result<Vec<ProxyListener>, Error> {
    let credentials = &settings.credentials;
    let mut listeners = Vec::new();
    let mut add = |address: &SocketAddr, kind: ProxyProtocol, what: &str| {
        if let Some(shared) = shared.filter(|shared| address.ip() == *shared) {
            return Err(only_everywhere(shared));
        }
        let failed = |error| Fault::Listen {
            address: *address,
            error,
        };
        let listener = listen(*address).map_err(failed)?;
        let here = listener.local_addr().map_err(failed)?;
        info!("{what} at {here}");
        listeners.push(ProxyListener { listener, kind });
        Ok::<_, Error>(())
    };
    for address in &settings.socks {
        add(address, ProxyProtocol::Socks(credentials.clone()), "SOCKS5")?;
    }
    for address in &settings.connect {
        add(
            address,
            ProxyProtocol::Connect(credentials.clone()),
            "HTTP CONNECT",
        )?;
    }
    for (address, target) in &settings.forward {
        let what = format!("forwarding to {target}");
        add(address, ProxyProtocol::Forward(target.clone()), &what)?;
    }
    let everywhere = |own: &ProxyListener| {
        own.listener
            .local_addr()
            .is_ok_and(|at| at.ip().is_unspecified())
    };
    match shared.filter(|_| !listeners.iter().any(everywhere)) {
        Some(shared) => Err(only_everywhere(shared)),
        None => Ok(listeners),
    }
}

/// Returns the error for a listener at the shared address alone, where it could take the address of a connection.
fn only_everywhere(shared: Ipv4Addr) -> Error {
    Fault::OnlyShared(shared).into()
}

/// Redirects connections to other hosts to this gateway. Earlier connections wait until the listeners are open.
fn capture(wanted: &Transparent) -> Result<(Vec<ProxyListener>, Rules), Error> {
    let failed = Fault::Capture;
    let sockets = CaptureListeners::open().map_err(failed)?;
    let rules = Rules::install(wanted, &sockets).map_err(failed)?;
    info!("capturing connections to other hosts");
    let proxy = |listener: TcpListener| ProxyListener {
        listener,
        kind: ProxyProtocol::Transparent,
    };
    let listeners = std::iter::once(sockets.v4).chain(sockets.v6).map(proxy);
    Ok((listeners.collect(), rules))
}
