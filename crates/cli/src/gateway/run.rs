//! Command `lighthaul gateway`: converts options to settings of the service, and runs it.
//!
//! `check` refuses options that contradict each other. The `Settings` have three main parts: links
//! to other gateways, the peer that this gateway connects to, and the server that other gateways
//! connect to. A gateway has a peer, a server, or both. Files that options name, such as keys and
//! credentials, are read here.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use lighthaul_base::Size;
use lighthaul_capture::credentials::Credentials;
use lighthaul_capture::settings::Transparent;
use lighthaul_capture::target::Target;
use lighthaul_daemon::settings::{self as daemon, AccessPolicy};
use lighthaul_gateway::cluster;
use lighthaul_gateway::settings::{LinkLimits, Settings as LinkSettings};
use lighthaul_gateway::target_rules::TargetRules;
use lighthaul_grammar::gateway::{Action, CaptureArgs, ClusterArgs, Gateway};
use lighthaul_remote::dial::load_key;
use lighthaul_remote::paths;
use lighthaul_service::gateway::settings::{Booked, Listeners, Peer, Settings};
use lighthaul_service::{gateway, log};
use lighthaul_session::error::{Error, FileAction};

use crate::error::usage;
use crate::shared_options;

use super::status;

/// Runs a gateway until it is stopped, or the subcommand.
pub(crate) fn run(args: &Gateway) -> Result<(), Error> {
    if let Some(Action::Status(args)) = &args.action {
        return status::run(args);
    }
    check(args)?;
    let _log = log::start(shared_options::log_format(args.log))?;
    gateway::run(settings(args)?)
}

/// Refuses contradictory options.
fn check(args: &Gateway) -> Result<(), Error> {
    let wrong = |text: &'static str| Err(usage(text));
    if args.listen.is_none() && args.peer.is_empty() {
        return wrong("a gateway needs --listen ADDR, --peer HOST, or both");
    }
    let listeners = [args.socks.len(), args.connect.len(), args.forward.len()];
    let is_entrance = listeners != [0; 3] || args.capture.transparent;
    if args.peer.is_empty() && is_entrance {
        return wrong("the listeners for programs need another gateway: add --peer HOST");
    }
    Ok(())
}

fn settings(args: &Gateway) -> Result<Settings, Error> {
    let status_socket = args.status_socket.clone();
    Ok(Settings {
        links: links(args)?,
        peer: if args.peer.is_empty() {
            None
        } else {
            Some(peer(args)?)
        },
        server: args
            .listen
            .map(|address| server(args, address))
            .transpose()?,
        metrics: args.metrics_listen,
        status_socket: status_socket.unwrap_or_else(paths::gateway_socket),
    })
}

fn links(args: &Gateway) -> Result<LinkSettings, Error> {
    let allowed = TargetRules::new(args.allow.clone());
    let least = Size(MEMORY_MIN);
    if args.memory < least {
        let text = format!(
            "--memory {} is too little: give it at least {least}",
            args.memory
        );
        return Err(usage(text));
    }
    Ok(LinkSettings {
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

fn peer(args: &Gateway) -> Result<Peer, Error> {
    let booked = &args.booked;
    let forward = args.forward.iter().map(|text| parse_forward(text));
    Ok(Peer {
        addresses: args.peer.clone(),
        via: args.via.clone(),
        daemon: shared_options::daemon(&args.far),
        plain: args.plain,
        listeners: Listeners {
            socks: args.socks.clone(),
            connect: args.connect.clone(),
            forward: forward.collect::<Result<_, _>>()?,
            credentials: credentials(args)?,
            transparent: args.capture.transparent.then(|| transparent(&args.capture)),
            sessions: args.sessions,
            keepalive: args.keepalive,
        },
        is_bypassed: !args.direct.is_empty(),
        booked: booked.book.then(|| Booked {
            scheduler: shared_options::booking_scheduler(&booked.at),
            from: booked.node.clone(),
            to: booked.far_node.clone(),
            rate_max: args.rate,
        }),
        cluster: cluster(args)?,
    })
}

fn transparent(args: &CaptureArgs) -> Transparent {
    Transparent {
        arriving: args.device.is_some() || args.user.is_empty(),
        device: args.device.clone(),
        users: args.user.clone(),
        prefixes: args.to.clone(),
        ports: args.ports.clone(),
        ..Transparent::default()
    }
}

fn cluster(args: &Gateway) -> Result<Option<cluster::Settings>, Error> {
    let ClusterArgs {
        cluster,
        cluster_listen,
        cluster_key,
        cluster_address,
    } = &args.together;
    let (Some(listen), Some(key), Some(rate)) = (cluster_listen, cluster_key, args.rate) else {
        return Ok(None);
    };
    let failed = |e| Error::file(FileAction::Open, key, &e);
    Ok(Some(cluster::Settings {
        members: cluster.clone(),
        listen: *listen,
        secret: fs::read(key).map_err(failed)?.trim_ascii().to_vec(),
        rate,
        address: *cluster_address,
    }))
}

/// Returns the settings of the server for other gateways.
fn server(args: &Gateway, address: SocketAddr) -> Result<daemon::Settings, Error> {
    let key = args.far.key.path.clone().unwrap_or_else(paths::host_key);
    Ok(daemon::Settings {
        address,
        identity: load_key(&key)?,
        access: AccessPolicy::Listed {
            keys: args.allowed.clone().unwrap_or_else(paths::allowed_keys),
            tokens: paths::tokens(),
        },
        root: None,
        plain: args.plain,
        ports: None,
        stores: BTreeMap::new(),
        relay: false,
        gateway: None,
        limits: daemon::Limits::default(),
    })
}

/// Reads `ADDR=TARGET`.
fn parse_forward(text: &str) -> Result<(SocketAddr, Target), Error> {
    let unclear = || {
        let text = format!("--forward {text}: write ADDR=TARGET, as in 127.0.0.1:8080=host:80");
        usage(text)
    };
    let (address, target) = text.split_once('=').ok_or_else(unclear)?;
    let address = address.parse().map_err(|_| unclear())?;
    Ok((address, target.parse().map_err(|_| unclear())?))
}

fn credentials(args: &Gateway) -> Result<Option<Credentials>, Error> {
    let Some(path) = &args.credentials else {
        return Ok(None);
    };
    let failed = |e| Error::file(FileAction::Open, path, &e);
    let text = fs::read_to_string(path).map_err(failed)?;
    let unclear = || {
        let text = format!("{}: write NAME:PASSWORD on one line", path.display());
        usage(text)
    };
    let (name, password) = text.trim_end().split_once(':').ok_or_else(unclear)?;
    Credentials::new(name, password)
        .map(Some)
        .map_err(|_| unclear())
}

/// Minimum memory, in bytes. A link may use half of it, which must hold a slab.
const MEMORY_MIN: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use lighthaul_grammar::cli::{Cli, Command};

    use super::*;

    #[test]
    fn each_limit_has_its_own_option() {
        let words = [
            "lighthaul",
            "gateway",
            "--peer=gateway.example.org",
            "--memory=901MiB",
            "--max-memory=902MiB",
            "--links=903",
            "--links-per-key=904",
            "--links-per-address=905",
            "--sessions=906",
            "--patience=907s",
            "--keepalive=908s",
            "--age=909ms",
            "--slab=910KiB",
        ];
        let Some(Command::Gateway(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is another command");
        };
        let found = links(&args).unwrap();
        let limits = LinkLimits {
            all: 903,
            key: 904,
            address: 905,
            memory: Size(902 << 20),
        };
        assert_eq!((found.links, found.memory), (limits, Size(901 << 20)));
        assert_eq!((found.sessions_max, found.slab), (906, Size(910 << 10)));
        let times = [found.patience, found.keepalive, found.age];
        let expected = [907_000, 908_000, 909].map(Duration::from_millis);
        assert_eq!(times, expected);
        let listeners = peer(&args).unwrap().listeners;
        let programs = (listeners.sessions, listeners.keepalive);
        assert_eq!(programs, (906, expected[1]));
    }
}
