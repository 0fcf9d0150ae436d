//! `lighthaul serve`, and the commands that say whose key is welcome.

use std::io::{self, stdout};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lighthaul_base::seats;
use lighthaul_daemon::allowed::{self, Allowed};
use lighthaul_daemon::known::{self, Known};
use lighthaul_daemon::serve::{Server, serve_once};
use lighthaul_daemon::settings::{Limits, Settings, Welcome};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls;
use lighthaul_io::fs::ground::Ground;
use lighthaul_transfer::error::{Code, Error};
use sd_notify::NotifyState;
use tracing::info;

use crate::args::{Serve, ServeLimits};
use crate::credential::{fingerprint, rights};
use crate::dial::{load_key, unclear};
use crate::key_args::{Allow, Deny, Key, Trust};
use crate::print::{print, say};
use crate::{log, places};

/// Serves until it is stopped.
pub(crate) fn run(args: &Serve) -> Result<(), Error> {
    let listening = |e: &dyn std::fmt::Display| {
        Error::new(
            Code::Network,
            format!("cannot listen on {}: {e}", args.listen),
        )
    };
    if args.once {
        let settings = Settings {
            address: SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 0], 0)),
            identity: Identity::generate(),
            // whom it is told to expect
            welcome: Welcome::Listed {
                keys: PathBuf::new(),
                tokens: PathBuf::new(),
            },
            root: args.root.clone(),
            plain: true,
            relay: true,
            gateway: None,
            limits: Limits::default(),
        };
        return serve_once(settings, &mut stdout());
    }
    let _log = log::start(args.log_format)?;
    let identity = load_key(&args.key.path.clone().unwrap_or_else(places::host_key))?;
    let key = tls::fingerprint(&identity)?;
    let allowed = args.allowed.clone().unwrap_or_else(places::allowed_keys);
    let tokens = args.tokens.clone().unwrap_or_else(places::tokens);
    check_lists(&[&allowed, &tokens])?;
    let root = args.root.as_deref().ok_or_else(|| {
        let text = "say which folder to serve: --root DIR (--root / serves the whole host)";
        Error::new(Code::Usage, text)
    })?;
    Ground::beneath(root).map_err(|e| Error::file(Code::Open, "cannot serve", root, &e))?;
    let settings = Settings {
        address: args.listen.parse().map_err(|_| {
            let text = format!(
                "--listen {}: write an address and a port, as in [::]:4810",
                args.listen
            );
            Error::new(Code::Usage, text)
        })?,
        identity,
        welcome: Welcome::Listed {
            keys: allowed.clone(),
            tokens,
        },
        // where nothing is outside, nothing need be kept in
        root: args.root.clone().filter(|root| root != Path::new("/")),
        plain: args.plain,
        relay: !args.no_relay,
        gateway: None,
        limits: limits(&args.limits),
    };
    let server = Server::listen(settings).map_err(|e| listening(&e))?;
    let address = server.address().map_err(|e| listening(&e))?;
    info!("listening on {address} (TCP and UDP)");
    if let Some(address) = args.metrics_listen {
        tell_metrics(address, server.show_metrics(address))?;
    }
    info!("serving {} and what is below", root.display());
    info!("this host's key is {key}");
    info!("keys in {} may call", allowed.display());
    // without a service manager there is nobody to tell
    sd_notify::notify(&[NotifyState::Ready]).ok();
    server.run().map_err(|e| listening(&e))
}

/// Says where metrics can be asked for, which were to be at `address`.
pub(crate) fn tell_metrics(address: SocketAddr, at: io::Result<SocketAddr>) -> Result<(), Error> {
    let at = at.map_err(|error| {
        let text = format!("cannot show metrics at {address}: {error}");
        Error::new(Code::Network, text)
    })?;
    info!("metrics at http://{at}/metrics");
    Ok(())
}

fn limits(args: &ServeLimits) -> Limits {
    let usual = Limits::default();
    Limits {
        sessions: seats::Limits {
            all: args.max_sessions.into(),
            identity: args.max_sessions_per_key.into(),
            host: args.max_sessions_per_address.into(),
            site: args.max_sessions_per_network.into(),
        },
        connections: seats::Limits {
            identity: args.max_connections_per_key.into(),
            ..usual.connections
        },
        memory: args.max_memory.0,
        threads: args.max_threads,
        files: args.max_open_files.unwrap_or(usual.files),
    }
}

/// Refuses lists that cannot be read. What makes no sense in them the server logs when it reads them.
fn check_lists(paths: &[&Path]) -> Result<(), Error> {
    for path in paths {
        let read = Allowed::load(path);
        read.map_err(|e| Error::file(Code::Permission, "cannot read", path, &e))?;
    }
    Ok(())
}

/// Prints a key's fingerprint.
pub(crate) fn key(args: &Key) -> Result<(), Error> {
    let default = if args.host {
        places::host_key
    } else {
        places::user_key
    };
    let path = args.key.path.clone().unwrap_or_else(default);
    // a key that nobody serves with would be taken for the host's
    let identity = if args.host {
        existing_key(&path)?
    } else {
        load_key(&path)?
    };
    print(&tls::fingerprint(&identity)?.to_string());
    Ok(())
}

/// The key of this host's daemon, which `serve` makes when it first starts, or root does.
fn existing_key(path: &Path) -> Result<Identity, Error> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root || path.exists() {
        return load_key(path);
    }
    let text = format!(
        "no daemon of this user has a key yet ({} is missing): ask root for `lighthaul key --host`, or start `lighthaul serve`",
        path.display()
    );
    Err(Error::new(Code::Open, text))
}

/// Lists a key among those that may call.
pub(crate) fn allow(args: &Allow) -> Result<(), Error> {
    let path = args.allowed.clone().unwrap_or_else(places::allowed_keys);
    let rights = rights(&args.name, &args.rights);
    allowed::allow(&path, fingerprint(&args.key)?, &rights)
        .map_err(|e| Error::file(Code::Io, "cannot write", &path, &e))
}

/// Lists a key among those that may not call.
pub(crate) fn deny(args: &Deny) -> Result<(), Error> {
    let path = args.allowed.clone().unwrap_or_else(places::allowed_keys);
    allowed::deny(&path, fingerprint(&args.key)?, &args.why)
        .map_err(|e| Error::file(Code::Io, "cannot write", &path, &e))
}

/// Lists a daemon's key among those that are known.
pub(crate) fn trust(args: &Trust) -> Result<(), Error> {
    let path = places::known_hosts();
    let key = fingerprint(&args.key)?;
    let known = known::accept(&path, &args.host, key, args.replace)
        .map_err(|e| Error::file(Code::Io, "cannot write", &path, &e))?;
    let host = &args.host;
    match known {
        Known::New | Known::Same => Ok(()),
        Known::Other(other) if args.replace => {
            say(&format!(
                "lighthaul: {host} was known by {other}, and is by {key} from now on"
            ));
            Ok(())
        }
        Known::Unclear(nth) => Err(unclear(&path, nth, host)),
        Known::Other(other) => {
            let text = format!(
                "{host} is known by {other} already: compare {key} with `lighthaul key --host` there, then add --replace"
            );
            Err(Error::new(Code::Permission, text))
        }
    }
}
