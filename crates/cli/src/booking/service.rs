//! `lighthaul scheduler`: the service itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lighthaul_booking::books::{Books, Config, Policy, Quota};
use lighthaul_booking::certificate::ServerCertificate;
use lighthaul_booking::circuits::{Circuits, with_device_limits};
use lighthaul_booking::connections::Limits;
use lighthaul_booking::error::Error as Refused;
use lighthaul_booking::https::{ServerTrust, fetcher};
use lighthaul_booking::identity::tokens::Tokens;
use lighthaul_booking::identity::{Authenticator, Issuer, Keys};
use lighthaul_booking::json::Timestamp;
use lighthaul_booking::policies::{Policies, PolicyFile};
use lighthaul_booking::serve::{Server, Settings};
use lighthaul_booking::store::Store;
use lighthaul_booking::store::postgres::Postgres;
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking::topology::file;
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::exec::{Exec, config as exec};
use lighthaul_circuit::linux::Shaper;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls;
use lighthaul_io::fs::durable;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Code, Error};
use sd_notify::NotifyState;
use tracing::{info, warn};

use crate::grammar::scheduler::{AccessArgs, Device, Interface, Scheduler};
use crate::output::log;
use crate::paths;
use crate::remote::dial::load_key;

/// Runs the scheduler until it is stopped.
pub(crate) fn run(args: &Scheduler) -> Result<(), Error> {
    check_address(args)?;
    let _log = log::start(args.log.log_format)?;
    let identity = load_key(&args.key.path.clone().unwrap_or_else(paths::host_key))?;
    let key = tls::fingerprint(&identity)?;
    let topology = file::read(&args.topology, args.link_capacity).map_err(failed)?;
    let clock = Clock::start();
    let drivers = drivers(args, clock)?;
    let topology = with_device_limits(topology, &drivers).map_err(failed)?;
    let (rules, policies) = config(args)?;
    let books = Books::open(store(args)?, topology, rules, || Timestamp(unix_nanos()));
    let books = Arc::new(books.map_err(failed)?);
    if let Some(policies) = policies {
        follow(policies, Arc::clone(&books))?;
    }
    let circuits = if drivers.is_empty() {
        None
    } else {
        let circuits = Circuits::start(Arc::clone(&books), drivers, clock, Timestamp(unix_nanos()));
        Some(circuits.map_err(failed)?)
    };
    let settings = Settings {
        listen: args.listen,
        certificate: certificate(args, identity),
        insecure: args.insecure,
        authenticator: authenticator(&args.welcome)?,
        books,
        requests_per_second: args.questions_max,
        limits: Limits {
            connections: args.connections_max,
            connections_each: args.connections_each,
            ..Limits::default()
        },
        peers: peers(key),
        circuits,
    };
    let server = Server::listen(settings).map_err(failed)?;
    let address = server.address().map_err(|e| failed(e.into()))?;
    let scheme = scheme(args);
    info!("booking at {scheme}://{address}, as {scheme}://{address}/openapi.json says");
    if scheme == "https" && args.certificate.is_none() {
        info!("this host's key is {key}; clients accept it with `lighthaul trust {address} {key}`");
    }
    // without a service manager the notification has no receiver
    sd_notify::notify(&[NotifyState::Ready]).ok();
    server.run().map_err(failed)
}

/// Refuses port 0 where other instances share the store, since they could not find this one. Two instances of one host would
/// share a note of how far the store has come.
fn check_address(args: &Scheduler) -> Result<(), Error> {
    if server(args).is_none() || args.url.is_some() || args.listen.port() != 0 {
        return Ok(());
    }
    let text = "other instances with this store cannot find this one at port 0: give --listen a port, or --url the address \
                where they reach it";
    Err(Error::new(Code::Usage, text))
}

/// Opens the store.
fn store(args: &Scheduler) -> Result<Box<dyn Store>, Error> {
    if let Some(server) = server(args) {
        let store = Postgres::open(server, &url(args));
        return Ok(Box::new(store.map_err(failed)?));
    }
    let path = match &args.store {
        Some(place) => named(place)?,
        None => usual()?,
    };
    Ok(Box::new(Sqlite::open(&path).map_err(failed)?))
}

/// The `PostgreSQL` server that keeps the books, if one does.
fn server(args: &Scheduler) -> Option<&str> {
    let place = args.store.as_deref();
    place.filter(|place| place.starts_with("postgres"))
}

/// Returns the URL at which other schedulers reach this one.
fn url(args: &Scheduler) -> String {
    let here = || format!("{}://{}", scheme(args), args.listen);
    args.url.clone().unwrap_or_else(here)
}

/// Returns the path of the note that records the progress of the store. It is beside a file store, or in this host's
/// directory by server and URL. Instances of this host that share a server have a note each.
fn seen(args: &Scheduler) -> PathBuf {
    let server = server(args);
    let Some(server) = server else {
        let books = args.store.as_ref().map_or_else(paths::books, PathBuf::from);
        return with_end(&books, "seen");
    };
    let instance = format!("{server} {}", url(args));
    let hash = Fingerprint::of_token(&instance).to_string();
    let hash: String = hash.chars().skip("sha256:".len()).take(16).collect();
    with_end(&paths::books(), &format!("{hash}.seen"))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".");
    path.push(end);
    path.into()
}

/// Returns the path of a store that was named, in a directory that exists.
fn named(place: &str) -> Result<PathBuf, Error> {
    if let Some((scheme, _)) = place.split_once("://") {
        let text = format!(
            "books cannot be kept at {scheme}://: give a file or a postgres:// URL with --store"
        );
        return Err(Error::new(Code::Usage, text));
    }
    let path = PathBuf::from(place);
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        let text =
            format!("there is no folder {folder} for the books: make it, or give another --store");
        return Err(Error::new(Code::Usage, text));
    }
    Ok(path)
}

/// Returns the default path of the store.
fn usual() -> Result<PathBuf, Error> {
    let path = paths::books();
    if let Some(folder) = path.parent() {
        durable::make_folders(folder)
            .map_err(|e| Error::file(Code::Io, "cannot make the folder", folder, &e))?;
    }
    Ok(path)
}

/// Returns the drivers of circuits by the names of interfaces and devices.
fn drivers(args: &Scheduler, clock: Clock) -> Result<BTreeMap<String, Box<dyn Driver>>, Error> {
    let wrong = |e: lighthaul_circuit::error::Error| Error::new(Code::Usage, e.to_string());
    let mut drivers: BTreeMap<String, Box<dyn Driver>> = BTreeMap::new();
    for Interface { name, rate } in &args.shape {
        drivers.insert(
            name.clone(),
            Box::new(Shaper::open(name, *rate).map_err(wrong)?),
        );
    }
    for Device { name, program } in &args.device {
        let config = exec::Config {
            program: program.clone(),
            arguments: Vec::new(),
            limit: Duration::from_secs(30),
        };
        let driver = Exec::open(clock, config).map_err(wrong)?;
        drivers.insert(name.clone(), Box::new(driver));
    }
    Ok(drivers)
}

/// Interval at which the file of policies is read.
const LOOK: Duration = Duration::from_secs(1);

/// Returns the configuration of the books, and the policy file to watch.
fn config(args: &Scheduler) -> Result<(Config, Option<PolicyFile>), Error> {
    let usual = Policy {
        quota: Quota {
            reservations: args.reservations_max,
            bytes: args.bytes_max.map_or(u64::MAX, |size| size.0),
        },
        ..Policy::default()
    };
    let (watch, policies) = if let Some(path) = &args.policy {
        let (watch, policies) = PolicyFile::open(path, usual).map_err(failed)?;
        (Some(watch), policies)
    } else {
        let policies = Policies {
            default: usual,
            ..Policies::default()
        };
        (None, policies)
    };
    let mut config = Config {
        hold: args.hold,
        policy: policies.default,
        policies: policies.listed,
        position_file: Some(seen(args)),
        accept_restored: args.accept_restored,
        ..Config::default()
    };
    config.calendar.horizon = args.horizon;
    Ok((config, watch))
}

/// Applies changes of the policy file as long as this process lives.
fn follow(mut policies: PolicyFile, books: Arc<Books>) -> Result<(), Error> {
    let look = move || {
        loop {
            pause(LOOK);
            if let Some(Policies { default, listed }) = policies.poll() {
                books.set_policies(default, listed);
            }
        }
    };
    let thread = thread::Builder::new().name("policies".into()).spawn(look);
    thread.map(drop).map_err(|error| failed(error.into()))
}

/// Returns the identity that clients see.
fn certificate(args: &Scheduler, identity: Identity) -> ServerCertificate {
    match (&args.certificate, &args.certificate_key) {
        _ if args.no_tls => ServerCertificate::Plain,
        (Some(chain), Some(key)) => ServerCertificate::Files {
            chain: chain.clone(),
            key: key.clone(),
        },
        _ => ServerCertificate::SelfSigned(identity),
    }
}

const fn scheme(args: &Scheduler) -> &'static str {
    if args.no_tls { "http" } else { "https" }
}

/// Returns the credentials that are accepted.
fn authenticator(welcome: &AccessArgs) -> Result<Authenticator, Error> {
    let path = welcome
        .tokens
        .clone()
        .unwrap_or_else(paths::scheduler_tokens);
    let issuer = match (&welcome.issuer, &welcome.jwks) {
        (Some(issuer), Some(url)) => Some(trusted(welcome, issuer, url)?),
        _ => None,
    };
    if issuer.is_none() && !path.exists() {
        let path = path.display();
        warn!(
            "no client may connect yet: `lighthaul token NAME --role user` lists a token in {path}"
        );
    }
    Ok(Authenticator {
        tokens: Some(tokens(&path)?),
        issuer,
    })
}

/// Returns the trusted issuer and the source of its keys.
fn trusted(welcome: &AccessArgs, issuer: &str, url: &str) -> Result<(Issuer, Keys), Error> {
    let near = ["http://127.0.0.1", "http://[::1]", "http://localhost"];
    if !url.starts_with("https://") && !near.iter().any(|start| url.starts_with(start)) {
        let text =
            format!("keys from {url} could be forged on the way: give an https:// URL with --jwks");
        return Err(Error::new(Code::Usage, text));
    }
    let agent =
        fetcher().map_err(|e| Error::new(Code::Usage, format!("TLS cannot be set up: {e}")))?;
    let issuer = Issuer {
        name: issuer.to_owned(),
        audiences: welcome.audience.clone(),
        users: welcome.user_scope.clone(),
        operators: welcome.operator_scope.clone(),
        admins: welcome.admin_scope.clone(),
    };
    let keys = Keys::new(agent, url.to_owned());
    if !keys.warm(unix_nanos() / 1_000_000_000) {
        warn!("no keys are known at {url}: signed tokens are refused until they are");
    }
    Ok((issuer, keys))
}

/// The tokens of a file.
fn tokens(path: &Path) -> Result<Tokens, Error> {
    Tokens::open(path).map_err(|e| Error::file(Code::Permission, "cannot read", path, &e))
}

/// Returns the check of other schedulers of the store: a certificate, or this host's key.
fn peers(key: Fingerprint) -> ServerTrust {
    ServerTrust {
        by_certificate: true,
        by_key: Box::new(move |shown| {
            let why =
                || format!("it shows the key {shown}: give all instances one key or certificates");
            (shown == key).then_some(()).ok_or_else(why)
        }),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "map_err gives it away")]
fn failed(refused: Refused) -> Error {
    let code = match &refused {
        Refused::Store(_) | Refused::Io(_) => Code::Io,
        Refused::OtherWriter { .. } => Code::Network,
        Refused::Setup(_)
        | Refused::Request(_)
        | Refused::Refused(_)
        | Refused::Transition(_)
        | Refused::Quota(_)
        | Refused::Policy(_)
        | Refused::Overlap(_)
        | Refused::NotFound { .. }
        | Refused::UnknownLink(_)
        | Refused::Forbidden { .. }
        | Refused::KeyReused(_) => Code::Usage,
    };
    Error::new(code, refused.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::grammar::cli::{self, Cli};

    fn scheduler(line: &str) -> Scheduler {
        let words = ["lighthaul", "scheduler", "--topology", "t"];
        let words = words.into_iter().chain(line.split_whitespace());
        let cli::Command::Scheduler(scheduler) = Cli::parse_from(words).command.unwrap() else {
            panic!("it is another command");
        };
        scheduler
    }

    fn note(line: &str) -> PathBuf {
        seen(&scheduler(line))
    }

    #[test]
    fn instances_of_a_store_that_cannot_be_told_apart_are_refused() {
        let store = "--store postgres://books@db/books";
        let any = scheduler(&format!("{store} --listen 127.0.0.1:0"));
        assert_eq!(run(&any).unwrap_err().code, Code::Usage);
        let why = check_address(&any).unwrap_err().to_string();
        assert!(why.contains("at port 0"), "{why}");
        for line in [
            format!("{store} --listen 127.0.0.1:0 --url https://one.example.org:4811"),
            format!("{store} --listen 127.0.0.1:4811"),
            store.to_owned(),
            // a file with books has one instance
            "--store /srv/books --listen 127.0.0.1:0".to_owned(),
        ] {
            assert_eq!(check_address(&scheduler(&line)), Ok(()), "{line}");
        }
    }

    #[test]
    fn schedulers_of_one_store_have_separate_notes() {
        let store = "--store postgres://books@db/books";
        let one = note(&format!("{store} --listen 127.0.0.1:4811"));
        let again = note(&format!("{store} --listen 127.0.0.1:4811"));
        assert_eq!(one, again);
        for other in [
            format!("{store} --listen 127.0.0.1:4812"),
            format!("{store} --listen 127.0.0.1:4811 --url https://two.example.org:4811"),
            "--store postgres://books@db/others --listen 127.0.0.1:4811".to_owned(),
        ] {
            assert_ne!(one, note(&other), "{other}");
        }
        // a file with books has one instance
        for listen in ["127.0.0.1:4811", "127.0.0.1:4812"] {
            let note = note(&format!("--store /srv/books --listen {listen}"));
            assert_eq!(note, Path::new("/srv/books.seen"));
        }
    }

    #[test]
    fn invalid_store_is_refused() {
        for (place, says) in [
            ("mysql://x", "at mysql://: give a file or a postgres:// URL"),
            ("/nonexistent/b", "no folder /nonexistent for the books"),
        ] {
            let why = named(place).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        }
        for place in ["books", "/tmp/books"] {
            assert_eq!(named(place).unwrap(), Path::new(place));
        }
    }
}
