//! Runs a gateway until it is stopped.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Size;
use lighthaul_daemon::gateways::{Gateways, Outgoing};
use lighthaul_daemon::serve::{self, Server, Welcome};
use lighthaul_gateway::allowed::Allowed;
use lighthaul_gateway::capture::credentials::Credentials;
use lighthaul_gateway::door::{Door, Doors, Kind, listen};
use lighthaul_gateway::settings::Settings;
use lighthaul_gateway::target::Target;
use lighthaul_io::{interrupt, tls};
use lighthaul_transfer::error::{Code, Error};
use sd_notify::NotifyState;
use tracing::{info, warn};

use super::args::Gateway;
use crate::args::Far;
use crate::dial::{dial, load_key};
use crate::remote::PORT;
use crate::{log, places};

/// Carries sessions until it is stopped.
pub(crate) fn run(args: &Gateway) -> Result<(), Error> {
    if args.listen.is_none() && args.peer.is_empty() {
        let text = "a gateway needs somebody to carry for: --listen ADDR, --peer HOST, or both";
        return Err(Error::new(Code::Usage, text));
    }
    let _log = log::start(args.log_format)?;
    let settings = Arc::new(settings(args)?);
    let outgoing = if args.peer.is_empty() {
        None
    } else {
        let outgoing = Outgoing::new(Arc::clone(&settings), args.plain).map_err(starting)?;
        Some(Arc::new(outgoing))
    };
    let doors = match &outgoing {
        Some(outgoing) => Some(open_doors(args, outgoing)?),
        None => None,
    };
    let server = match args.listen {
        Some(address) => {
            // what is not for here goes on
            let onward = outgoing.as_ref().map(|outgoing| outgoing.line.clone());
            let settings = Settings {
                onward,
                ..settings.as_ref().clone()
            };
            Some(serve(args, address, &Arc::new(settings))?)
        }
        None => None,
    };
    sd_notify::notify(&[NotifyState::Ready]).ok();
    let keeper = outgoing.map(|outgoing| keep(args, &outgoing));
    let result = match server {
        Some(server) => server.run().map_err(starting),
        None => Ok(()),
    };
    if let Some(keeper) = keeper {
        // it ends when somebody asks to stop
        keeper.join().ok();
    }
    drop(doors);
    result
}

fn settings(args: &Gateway) -> Result<Settings, Error> {
    let allowed = Allowed::new(args.allow.clone());
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
        rate: args.rate,
        memory: args.memory,
        slab: args.slab,
        age: args.age,
        patience: args.patience,
        sessions_max: args.sessions,
        onward: None,
    })
}

/// Listens wherever programs may come in.
fn open_doors(args: &Gateway, outgoing: &Outgoing) -> Result<Doors, Error> {
    let credentials = credentials(args)?;
    let mut doors = Vec::new();
    let mut add = |address: &SocketAddr, kind: Kind, what: &str| {
        let failed = |e| Error::new(Code::Network, format!("cannot listen on {address}: {e}"));
        let listener = listen(*address).map_err(failed)?;
        let here = listener.local_addr().map_err(failed)?;
        info!("{what} at {here}");
        doors.push(Door { listener, kind });
        Ok::<_, Error>(())
    };
    for address in &args.socks {
        add(address, Kind::Socks(credentials.clone()), "SOCKS5")?;
    }
    for address in &args.connect {
        add(address, Kind::Connect(credentials.clone()), "HTTP CONNECT")?;
    }
    for forward in &args.forward {
        let (address, target) = parse_forward(forward)?;
        let what = format!("the way to {target}");
        add(&address, Kind::Forward(target), &what)?;
    }
    if doors.is_empty() && args.listen.is_none() {
        let text = "no program can come in: give --socks, --connect or --forward";
        return Err(Error::new(Code::Usage, text));
    }
    Doors::open(doors, outgoing.line.clone()).map_err(starting)
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

/// Listens for other gateways.
fn serve(args: &Gateway, address: SocketAddr, settings: &Arc<Settings>) -> Result<Server, Error> {
    let listening = |e| Error::new(Code::Network, format!("cannot listen on {address}: {e}"));
    let identity = load_key(&args.far.key.path.clone().unwrap_or_else(places::host_key))?;
    let key = tls::fingerprint(&identity)?;
    let allowed = args.allowed.clone().unwrap_or_else(places::allowed_keys);
    info!("this gateway's key is {key}");
    info!("gateways with keys in {} may call", allowed.display());
    let server = Server::listen(serve::Settings {
        address,
        identity,
        welcome: Welcome::Listed {
            keys: allowed,
            tokens: places::tokens(),
        },
        root: None,
        plain: args.plain,
        relay: false,
        gateway: Some(Arc::new(Gateways::new(Arc::clone(settings)))),
        metrics: args.metrics_listen,
    })
    .map_err(listening)?;
    info!(
        "listening on {} (TCP and UDP)",
        server.address().map_err(listening)?
    );
    Ok(server)
}

/// Keeps a link to the other gateway, in a thread of its own, until somebody asks to stop.
fn keep(args: &Gateway, outgoing: &Arc<Outgoing>) -> JoinHandle<()> {
    let (peers, far, outgoing) = (args.peer.clone(), args.far.clone(), Arc::clone(outgoing));
    thread::spawn(move || {
        let mut last = String::new();
        for peer in peers.iter().cycle() {
            if interrupt::is_requested() {
                return;
            }
            if let Err(error) = connect(&far, &outgoing, peer) {
                let text = format!("{peer}: {error}");
                if text != last {
                    warn!("{text}");
                }
                last = text;
            }
            thread::park_timeout(AGAIN);
        }
    })
}

/// One connection to the other gateway, until it ends.
fn connect(far: &Far, outgoing: &Outgoing, peer: &str) -> Result<(), Error> {
    let (host, port) = address(peer)?;
    let session = dial(far, &host, port)?;
    info!("connected to {peer}");
    let result = outgoing.run(&session);
    if let Err(error) = &result {
        session.give_up(error);
    }
    result
}

/// Reads `HOST` or `HOST:PORT`.
fn address(text: &str) -> Result<(String, u16), Error> {
    if let Ok(target) = text.parse::<Target>() {
        let host = target.host.to_string();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        return Ok((bare.to_owned(), target.port));
    }
    if text.is_empty() {
        return Err(Error::new(Code::Usage, "--peer needs a host"));
    }
    Ok((text.to_owned(), PORT))
}

fn starting(error: std::io::Error) -> Error {
    Error::new(
        Code::Network,
        format!("the gateway could not start: {error}"),
    )
}

/// With less, a link has no room for a slab.
const MEMORY_MIN: u64 = 4 << 20;
/// How long after a failure the next attempt is made.
const AGAIN: Duration = Duration::from_secs(1);
