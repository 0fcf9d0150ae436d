//! Where programs come in.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use lighthaul_gateway::capture::credentials::Credentials;
use lighthaul_gateway::capture::rules::Rules;
use lighthaul_gateway::capture::settings::Transparent;
use lighthaul_gateway::capture::transparent::Listeners;
use lighthaul_gateway::host_shares::HostShares;
use lighthaul_gateway::proxy_listeners::{
    ProxyListener, ProxyListeners, ProxyProtocol, Routes, listen,
};
use lighthaul_gateway::target::Target;
use lighthaul_session::error::{Code, Error};
use tracing::{info, warn};

use crate::grammar::gateway::{CaptureArgs, Gateway};

/// Listeners for programs, and the rules that lead to them; closed by [`ProgramListeners::close`].
#[derive(Debug)]
pub(super) struct ProgramListeners {
    rules: Option<Rules>,
    doors: Option<ProxyListeners>,
}

impl ProgramListeners {
    /// Lets programs in wherever they may come, by one of `ways`.
    pub(super) fn open(args: &Gateway, ways: Routes) -> Result<Self, Error> {
        let mut doors = doors(args)?;
        let mut rules = None;
        if args.capture.transparent {
            let (captured, installed) = capture(&args.capture)?;
            doors.extend(captured);
            rules = Some(installed);
        }
        if doors.is_empty() && args.listen.is_none() {
            let text = "there is no listener for programs: give --socks, --connect, --forward or --transparent";
            return Err(Error::new(Code::Usage, text));
        }
        let failed = |e| Error::new(Code::Network, format!("cannot accept programs: {e}"));
        let shares = HostShares::new(args.sessions as u64);
        let doors = ProxyListeners::open(doors, ways, shares, args.keepalive).map_err(failed)?;
        let doors = Some(doors);
        Ok(Self { rules, doors })
    }

    /// Stops accepting programs, and removes the capture rules.
    pub(super) fn close(&mut self) {
        if let Some(rules) = self.rules.take()
            && let Err(error) = rules.remove()
        {
            warn!("{error}");
        }
        self.doors = None;
    }
}

fn doors(args: &Gateway) -> Result<Vec<ProxyListener>, Error> {
    let credentials = credentials(args)?;
    let mut doors = Vec::new();
    let shared = args.together.cluster_address;
    let mut add = |address: &SocketAddr, kind: ProxyProtocol, what: &str| {
        if let Some(shared) = shared.filter(|shared| address.ip() == *shared) {
            return Err(only_everywhere(shared));
        }
        let failed = |e| Error::new(Code::Network, format!("cannot listen on {address}: {e}"));
        let listener = listen(*address).map_err(failed)?;
        let here = listener.local_addr().map_err(failed)?;
        info!("{what} at {here}");
        doors.push(ProxyListener { listener, kind });
        Ok::<_, Error>(())
    };
    for address in &args.socks {
        add(address, ProxyProtocol::Socks(credentials.clone()), "SOCKS5")?;
    }
    for address in &args.connect {
        add(
            address,
            ProxyProtocol::Connect(credentials.clone()),
            "HTTP CONNECT",
        )?;
    }
    for forward in &args.forward {
        let (address, target) = parse_forward(forward)?;
        let what = format!("the way to {target}");
        add(&address, ProxyProtocol::Forward(target), &what)?;
    }
    let everywhere = |door: &ProxyListener| {
        door.listener
            .local_addr()
            .is_ok_and(|at| at.ip().is_unspecified())
    };
    match shared.filter(|_| !doors.iter().any(everywhere)) {
        Some(shared) => Err(only_everywhere(shared)),
        None => Ok(doors),
    }
}

/// A door at the shared address alone could not be told from what it let in.
fn only_everywhere(shared: Ipv4Addr) -> Error {
    let text = format!(
        "--cluster-address {shared}: programs come to it through doors that listen everywhere, as --socks 0.0.0.0:1080"
    );
    Error::new(Code::Usage, text)
}

/// Has the kernel hand over connections that are meant for others. Who comes before the doors are open waits.
fn capture(args: &CaptureArgs) -> Result<(Vec<ProxyListener>, Rules), Error> {
    let failed = |e: lighthaul_gateway::kernel::error::Error| {
        Error::new(Code::Permission, format!("--transparent: {e}"))
    };
    let listeners = Listeners::open().map_err(failed)?;
    let wanted = Transparent {
        arriving: args.device.is_some() || args.user.is_empty(),
        device: args.device.clone(),
        users: args.user.clone(),
        prefixes: args.to.clone(),
        ports: args.ports.clone(),
        ..Transparent::default()
    };
    let rules = Rules::install(&wanted, &listeners).map_err(failed)?;
    info!("connections that are meant for others are captured");
    let door = |listener: TcpListener| ProxyListener {
        listener,
        kind: ProxyProtocol::Transparent,
    };
    let doors = std::iter::once(listeners.v4).chain(listeners.v6).map(door);
    Ok((doors.collect(), rules))
}

/// Reads `ADDR=TARGET`.
fn parse_forward(text: &str) -> Result<(SocketAddr, Target), Error> {
    let unclear = || {
        let text = format!("--forward {text}: write ADDR=TARGET, as in 127.0.0.1:8080=host:80");
        Error::new(Code::Usage, text)
    };
    let (address, target) = text.split_once('=').ok_or_else(unclear)?;
    let address = address.parse().map_err(|_| unclear())?;
    Ok((address, target.parse().map_err(|_| unclear())?))
}

fn credentials(args: &Gateway) -> Result<Option<Credentials>, Error> {
    let Some(path) = &args.credentials else {
        return Ok(None);
    };
    let failed = |e| Error::file(Code::Open, "cannot read", path, &e);
    let text = fs::read_to_string(path).map_err(failed)?;
    let unclear = || {
        let text = format!("{}: write NAME:PASSWORD on one line", path.display());
        Error::new(Code::Usage, text)
    };
    let (name, password) = text.trim_end().split_once(':').ok_or_else(unclear)?;
    Credentials::new(name, password)
        .map(Some)
        .map_err(|_| unclear())
}
