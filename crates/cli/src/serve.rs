//! `lighthaul serve`, and the commands that say whose key is welcome.

use std::io::{self, stdout};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lighthaul_daemon::allowed::{self, Allowed};
use lighthaul_daemon::known;
use lighthaul_daemon::serve::{Server, Settings, Welcome, serve_once};
use lighthaul_io::ground::Ground;
use lighthaul_io::identity::Identity;
use lighthaul_io::tls;
use lighthaul_transfer::error::{Code, Error};
use sd_notify::NotifyState;
use tracing::{info, warn};

use crate::args::{Allow, Deny, Key, Serve, Trust};
use crate::credential::{fingerprint, rights};
use crate::dial::load_key;
use crate::print::print;
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
        };
        return serve_once(settings, &mut stdout());
    }
    let _log = log::start(args.log_format)?;
    let identity = load_key(&args.key.path.clone().unwrap_or_else(places::host_key))?;
    let key = tls::fingerprint(&identity)?;
    let allowed = args.allowed.clone().unwrap_or_else(places::allowed_keys);
    let tokens = args.tokens.clone().unwrap_or_else(places::tokens);
    name_faults(&[&allowed, &tokens])?;
    let root = args.root.as_deref().unwrap_or_else(|| Path::new("/"));
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
        root: args.root.clone(),
        plain: args.plain,
        relay: !args.no_relay,
        gateway: None,
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

/// Says which lines of the files make no sense.
fn name_faults(paths: &[&Path]) -> Result<(), Error> {
    for path in paths {
        let read = Allowed::load(path);
        let read = read.map_err(|e| Error::file(Code::Permission, "cannot read", path, &e))?;
        for fault in read.faults {
            warn!("{} lets nobody in by {fault}", path.display());
        }
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
    let identity = load_key(&args.key.path.clone().unwrap_or_else(default))?;
    print(&tls::fingerprint(&identity)?.to_string());
    Ok(())
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
    known::accept(&path, &args.host, fingerprint(&args.key)?)
        .map_err(|e| Error::file(Code::Io, "cannot write", &path, &e))
}
