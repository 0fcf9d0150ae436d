//! Command `lighthaul serve`: a daemon for copies, and `--once` for one session over ssh.
//!
//! A daemon checks its key, lists of allowed keys and root directory before it listens, so that a
//! wrong option fails at once. Then it notifies the service manager (`sd_notify(3)`) and serves
//! until it is stopped. With `--once`, standard input names the only client that is allowed. The
//! server then generates a key for this session and listens on a free port.

use std::io::stdout;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lighthaul_base::{Size, seats};
use lighthaul_daemon::allowed_keys::AllowedKeys;
use lighthaul_daemon::serve::{Server, serve_once};
use lighthaul_daemon::settings::{AccessPolicy, Limits, Settings, Stores};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_grammar::serve::{Serve, ServeLimits};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls;
use lighthaul_objects::serving;
use lighthaul_objects::spool_space::{SpoolPlace, SpoolSpace};
use lighthaul_remote::dial::load_key;
use lighthaul_remote::paths;
use lighthaul_remote::place::Place;
use lighthaul_service::log;
use lighthaul_service::metrics::tell_metrics;
use lighthaul_session::error::{Error, FileAction};
use sd_notify::NotifyState;
use tracing::info;

use crate::error::{Fault, usage};
use crate::shared_options;

/// Serves clients until the daemon is stopped.
pub(crate) fn run(args: &Serve) -> Result<(), Error> {
    let listening = |e: &dyn std::fmt::Display| {
        Error::from(Fault::Listen {
            address: args.listen.clone(),
            why: e.to_string(),
        })
    };
    if args.once {
        return serve_once(once(args), &mut stdout());
    }
    let _log = log::start(shared_options::log_format(args.log))?;
    let identity = load_key(&args.key.path.clone().unwrap_or_else(paths::host_key))?;
    let key = tls::fingerprint(&identity)?;
    let allowed = args.allowed.clone().unwrap_or_else(paths::allowed_keys);
    let tokens = args.tokens.clone().unwrap_or_else(paths::tokens);
    check_lists(&[&allowed, &tokens])?;
    let root = args.root.as_deref().ok_or_else(|| {
        let text =
            "--root DIR is required: the directory to serve (--root / serves the whole host)";
        usage(text)
    })?;
    FileAccess::beneath(root).map_err(|e| Error::file(FileAction::OpenRoot, root, &e))?;
    let settings = Settings {
        address: args.listen.parse().map_err(|_| {
            let text = format!(
                "--listen {}: write an address and a port, as in [::]:4810",
                args.listen
            );
            usage(text)
        })?,
        ports: args.port_range,
        identity,
        access: AccessPolicy::Listed {
            keys: allowed.clone(),
            tokens,
        },
        // with the root /, no path is outside
        root: args.root.clone().filter(|root| root != Path::new("/")),
        stores: stores(args, root)?,
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
    info!("serving the directory {}", root.display());
    for store in &args.store {
        info!("serving the object store {store}");
    }
    info!("this host's key is {key}");
    info!("accepting keys in {}", allowed.display());
    // without a service manager the notification has no receiver
    sd_notify::notify(&[NotifyState::Ready]).ok();
    server.run().map_err(|e| listening(&e))
}

/// Returns the settings of a daemon for one client on standard input.
fn once(args: &Serve) -> Settings {
    Settings {
        address: SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 0], 0)),
        ports: args.port_range,
        identity: Identity::generate(),
        // standard input names the client
        access: AccessPolicy::Listed {
            keys: PathBuf::new(),
            tokens: PathBuf::new(),
        },
        root: args.root.clone(),
        plain: true,
        stores: Stores::new(),
        relay: true,
        gateway: None,
        limits: Limits::default(),
    }
}

fn limits(args: &ServeLimits) -> Limits {
    let usual = Limits::default();
    Limits {
        sessions: seats::Limits {
            all: args.max_sessions.into(),
            identity: args.max_sessions_per_key.into(),
            authority: args.max_sessions_per_authority.into(),
            host: args.max_sessions_per_address.into(),
            site: args.max_sessions_per_network.into(),
        },
        connections: seats::Limits {
            all: args.max_connections.into(),
            identity: args.max_connections_per_key.into(),
            authority: args.max_connections_per_authority.into(),
            host: args.max_connections_per_address.into(),
            site: args.max_connections_per_network.into(),
        },
        memory: args.max_memory.0,
        threads: args.max_threads,
        files: args.max_open_files.unwrap_or(usual.files),
    }
}

/// Opens the object stores, each with a name that clients see as a directory of the root.
fn stores(args: &Serve, root: &Path) -> Result<Stores, Error> {
    let max = args.spool_max;
    if max < SPOOL_MIN {
        return Err(usage(format!(
            "--spool-max {max} is too small for parts of objects: give at least {SPOOL_MIN}"
        )));
    }
    let folder = args.spool.as_deref().unwrap_or_else(|| Path::new(SPOOL));
    let spool = SpoolPlace {
        folder: folder.to_owned(),
        space: Arc::new(SpoolSpace::new(max.0)),
        upload_keep: args.upload_keep,
    };
    let mut stores = Stores::new();
    for text in &args.store {
        let malformed = || {
            let text = format!(
                "--store {text}: write NAME=s3://BUCKET/PREFIX; clients see the name as a directory"
            );
            usage(text)
        };
        let (name, url) = text.split_once('=').ok_or_else(malformed)?;
        let is_name = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        if !is_name || stores.contains_key(name) {
            return Err(malformed());
        }
        if root.join(name).symlink_metadata().is_ok() {
            let root = root.display();
            let text = format!(
                "--store {text}: {root} already has {name}; choose another name for the store"
            );
            return Err(usage(text));
        }
        let opened = serving::open(name, &Place::parse(url)?, &spool)?;
        stores.insert(name.to_owned(), opened);
    }
    Ok(stores)
}

/// Refuses lists that cannot be read. The server logs malformed lines when it reads the lists.
fn check_lists(paths: &[&Path]) -> Result<(), Error> {
    for path in paths {
        let read = AllowedKeys::load(path);
        read.map_err(|e| Error::file(FileAction::ReadKeys, path, &e))?;
    }
    Ok(())
}

/// Usual directory for bytes whose parts are not complete.
const SPOOL: &str = "/var/tmp";
/// Smallest space for them: two parts.
const SPOOL_MIN: Size = Size(16 << 20);

#[cfg(test)]
mod tests {
    use clap::Parser;
    use lighthaul_grammar::cli::{Cli, Command};

    use super::*;

    /// Returns the limits of `lighthaul serve` with these options.
    fn parsed(options: &[&str]) -> Limits {
        let words = [&["lighthaul", "serve"], options].concat();
        let Some(Command::Serve(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("it is another command");
        };
        limits(&args.limits)
    }

    #[test]
    fn each_limit_has_its_own_option() {
        let options = [
            "--max-sessions=901",
            "--max-sessions-per-key=902",
            "--max-sessions-per-authority=903",
            "--max-sessions-per-address=904",
            "--max-sessions-per-network=905",
            "--max-connections=906",
            "--max-connections-per-key=907",
            "--max-connections-per-authority=908",
            "--max-connections-per-address=909",
            "--max-connections-per-network=910",
            "--max-memory=911MiB",
            "--max-threads=912",
            "--max-open-files=913",
        ];
        let expected = Limits {
            sessions: seats::Limits {
                all: 901,
                identity: 902,
                authority: 903,
                host: 904,
                site: 905,
            },
            connections: seats::Limits {
                all: 906,
                identity: 907,
                authority: 908,
                host: 909,
                site: 910,
            },
            memory: 911 << 20,
            threads: 912,
            files: 913,
        };
        assert_eq!(parsed(&options), expected);
    }

    #[test]
    fn limits_without_options_equal_the_defaults_of_the_daemon() {
        assert_eq!(parsed(&[]), Limits::default());
    }
}
