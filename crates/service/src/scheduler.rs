//! Service of a scheduler, from its settings until it is stopped.
//!
//! [`run`] opens the store, the topology, the policies and the drivers, then starts the REST
//! interface. It does so before it listens, so a wrong setting ends the start with a remedy. While
//! it runs, it reads the policy file again after each change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_booking::books::{Books, Config, Policy, Quota};
use lighthaul_booking::error::Error as Refused;
use lighthaul_booking::policies::{Policies, PolicyFile};
use lighthaul_booking::store::Store;
use lighthaul_booking::store::postgres::Postgres;
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking::topology::file;
use lighthaul_booking_client::clear_text::stays_private;
use lighthaul_booking_client::https::{ServerTrust, fetcher};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::exec::{Exec, config as exec};
use lighthaul_circuit::linux::Shaper;
use lighthaul_circuit::tl1::{SwitchConfig, Tl1};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::durable;
use lighthaul_io::host::wait::pause;
use lighthaul_nsi::provider::{Config as NsiConfig, Provider};
use lighthaul_remote::paths;
use lighthaul_scheduler::certificate::ServerCertificate;
use lighthaul_scheduler::circuits::{self, Circuits, with_device_limits};
use lighthaul_scheduler::connections::Limits;
use lighthaul_scheduler::device_record::DeviceRecord;
use lighthaul_scheduler::identity::tokens::Tokens;
use lighthaul_scheduler::identity::{Authenticator, Issuer, Keys};
use lighthaul_scheduler::jobs::JobDesk;
use lighthaul_scheduler::nsi::BookResources;
use lighthaul_scheduler::serve::{Server, Settings as ServerSettings};
use lighthaul_session::error::{Error, FileAction};
use sd_notify::NotifyState;
use tracing::{info, warn};

use crate::scheduler_fault::SchedulerFault as Fault;

/// Settings of a scheduler.
#[derive(Debug)]
pub struct Settings {
    /// File with the topology.
    pub topology: PathBuf,
    /// Capacity of links without a capacity in the topology.
    pub link_capacity: Option<Rate>,
    /// Settings of the reservations: their store and their limits.
    pub books: BookSettings,
    /// Interfaces of this host that carry circuits, with their rates.
    pub interfaces: Vec<(String, Rate)>,
    /// Devices that carry circuits, with their driver programs.
    pub devices: Vec<DriverProgram>,
    /// Files with the settings of switches that speak TL1.
    pub switches: Vec<PathBuf>,
    /// Names of devices that are lost.
    pub given_up: BTreeSet<String>,
    /// File with the settings of the NSI provider, if any.
    pub nsi: Option<PathBuf>,
    /// File or `PostgreSQL` URL of the queue of jobs, if any.
    pub jobs: Option<PathBuf>,
    /// REST interface.
    pub rest: RestSettings,
    /// Private key of this host.
    pub key: Identity,
    /// Credentials of clients.
    pub access: Access,
}

/// Device, and the program that drives it.
#[derive(Clone, Debug)]
pub struct DriverProgram {
    /// Name of the device.
    pub device: String,
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<String>,
}

/// Store and limits of reservations.
#[derive(Debug)]
pub struct BookSettings {
    /// File or `PostgreSQL` URL of the books, instead of the default store.
    pub store: Option<String>,
    /// True to accept a store that was restored from a backup.
    pub accept_restored: bool,
    /// File with policies.
    pub policy: Option<PathBuf>,
    /// Quota of identities without a quota in the policies.
    pub quota: Quota,
    /// Time before an uncommitted reservation expires.
    pub hold: Duration,
    /// Maximum time from now to the end of a reservation.
    pub horizon: Duration,
}

/// Address, certificate and limits of the REST interface.
#[derive(Debug)]
pub struct RestSettings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// URL at which other instances reach this instance, if it differs from its address.
    pub url: Option<String>,
    /// Identity that clients see.
    pub certificate: ServerCertificate,
    /// True to serve without TLS to other hosts.
    pub insecure: bool,
    /// Limit of searches for a path in a second.
    pub requests_per_second: u32,
    /// Limits of connections.
    pub limits: Limits,
}

/// Credentials that a scheduler accepts.
#[derive(Debug)]
pub struct Access {
    /// File with tokens.
    pub tokens: PathBuf,
    /// Trusted issuer of signed tokens, and the URL of its keys.
    pub issuer: Option<(Issuer, String)>,
}

/// Runs the scheduler until it is stopped.
pub fn run(settings: &Settings) -> Result<(), Error> {
    check_address(settings)?;
    let key = tls::fingerprint(&settings.key)?;
    let topology = file::read(&settings.topology, settings.link_capacity).map_err(failed)?;
    let clock = Clock::start();
    let drivers = drivers(settings, clock)?;
    let mut record = device_record(settings, &drivers)?;
    let topology = with_device_limits(topology, &drivers).map_err(failed)?;
    let (rules, policies) = config(settings)?;
    let books = Books::open(
        store(settings)?,
        topology,
        rules,
        || Timestamp(unix_nanos()),
    );
    let books = Arc::new(books.map_err(failed)?);
    if let Some(policies) = policies {
        follow(policies, Arc::clone(&books))?;
    }
    give_up(settings, &books, &mut record)?;
    let circuits = if drivers.is_empty() {
        None
    } else {
        let now = Timestamp(unix_nanos());
        let circuits = Circuits::start(Arc::clone(&books), drivers, clock, now, record);
        Some(circuits.map_err(failed)?)
    };
    let nsi = nsi(settings, &books)?;
    let jobs = settings.jobs.clone().map(JobDesk::open).transpose();
    let server = ServerSettings {
        listen: settings.rest.listen,
        certificate: settings.rest.certificate.clone(),
        insecure: settings.rest.insecure,
        authenticator: authenticator(&settings.access)?,
        books,
        jobs: jobs.map_err(Fault::Jobs)?,
        requests_per_second: settings.rest.requests_per_second,
        limits: settings.rest.limits,
        peers: peers(key),
        circuits,
        nsi,
    };
    let server = Server::listen(server).map_err(failed)?;
    let address = server.address().map_err(|e| failed(e.into()))?;
    let scheme = scheme(settings);
    info!("booking at {scheme}://{address}, described at {scheme}://{address}/openapi.json");
    if matches!(settings.rest.certificate, ServerCertificate::SelfSigned(_)) {
        info!("this host's key is {key}; clients accept it with `lighthaul trust {address} {key}`");
    }
    // without a service manager the notification has no receiver
    sd_notify::notify(&[NotifyState::Ready]).ok();
    server.run().map_err(failed)
}

/// Returns the provider of NSI, if configured. Its store is beside that of the books.
fn nsi(settings: &Settings, books: &Arc<Books>) -> Result<Option<Arc<Provider>>, Error> {
    let Some(path) = &settings.nsi else {
        return Ok(None);
    };
    let text = fs::read_to_string(path);
    let text = text.map_err(|e| Error::file(FileAction::Open, path, &e))?;
    let config = NsiConfig::parse(&text).map_err(Fault::Nsi)?;
    let nodes = books.topology().map_err(failed)?.nodes;
    if let Some(stp) = config.stps.iter().find(|stp| !nodes.contains(&stp.node)) {
        return Err(Fault::NsiNode(stp.node.clone()).into());
    }
    let store = settings
        .books
        .store
        .as_ref()
        .filter(|_| server(settings).is_none());
    let store = with_end(&store.map_or_else(paths::books, PathBuf::from), "nsi");
    let resources = Box::new(BookResources::new(Arc::clone(books), &config.nsa));
    let clock = || Timestamp(unix_nanos());
    let provider = Provider::open(config, &store, resources, clock).map_err(Fault::NsiStore)?;
    let provider = Arc::new(provider);
    let woken = Arc::clone(&provider);
    books.listen(move || woken.wake());
    Ok(Some(provider))
}

/// Refuses port 0 if other instances share the store, since they could not reach this instance. Two instances on one
/// host would also share the file with the position of the store.
fn check_address(settings: &Settings) -> Result<(), Error> {
    if server(settings).is_none() || settings.rest.url.is_some() || settings.rest.listen.port() != 0
    {
        return Ok(());
    }
    Err(Fault::SharedPort.into())
}

/// Opens the store.
fn store(settings: &Settings) -> Result<Box<dyn Store>, Error> {
    if let Some(server) = server(settings) {
        let store = Postgres::open(server, &url(settings));
        return Ok(Box::new(store.map_err(failed)?));
    }
    let path = match &settings.books.store {
        Some(place) => named(place)?,
        None => usual()?,
    };
    Ok(Box::new(Sqlite::open(&path).map_err(failed)?))
}

/// Returns the `PostgreSQL` server of the store, if any.
fn server(settings: &Settings) -> Option<&str> {
    let place = settings.books.store.as_deref();
    place.filter(|place| place.starts_with("postgres"))
}

/// Returns the URL at which other schedulers reach this scheduler.
fn url(settings: &Settings) -> String {
    let here = || format!("{}://{}", scheme(settings), settings.rest.listen);
    settings.rest.url.clone().unwrap_or_else(here)
}

/// Returns the path of the file with the position of the store. It is beside a file store, or in this host's directory
/// by server and URL. Instances on this host that share a server have a file each.
fn seen(settings: &Settings) -> PathBuf {
    let server = server(settings);
    let Some(server) = server else {
        let books = settings
            .books
            .store
            .as_ref()
            .map_or_else(paths::books, PathBuf::from);
        return with_end(&books, "seen");
    };
    let instance = format!("{server} {}", url(settings));
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
        return Err(Fault::StoreKind(scheme.to_owned()).into());
    }
    let path = PathBuf::from(place);
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Fault::StoreFolder(folder.to_owned()).into());
    }
    Ok(path)
}

/// Returns the default path of the store.
fn usual() -> Result<PathBuf, Error> {
    let path = paths::books();
    if let Some(folder) = path.parent() {
        durable::make_folders(folder)
            .map_err(|e| Error::file(FileAction::CreateFolder, folder, &e))?;
    }
    Ok(path)
}

/// Returns the drivers of circuits by the names of interfaces and devices.
fn drivers(settings: &Settings, clock: Clock) -> Result<BTreeMap<String, Box<dyn Driver>>, Error> {
    let wrong = Fault::Circuit;
    let switches = switches(settings)?;
    let mut drivers: BTreeMap<String, Box<dyn Driver>> = BTreeMap::new();
    for (name, rate) in &settings.interfaces {
        drivers.insert(
            name.clone(),
            Box::new(Shaper::open(name, *rate).map_err(wrong)?),
        );
    }
    for one in &settings.devices {
        let config = exec::Config {
            program: one.program.clone(),
            arguments: one.arguments.clone(),
            limit: Duration::from_secs(30),
        };
        let driver = Exec::open(clock, config).map_err(wrong)?;
        drivers.insert(one.device.clone(), Box::new(driver));
    }
    for config in switches {
        for (name, driver) in Tl1::open_all(clock, &config).map_err(wrong)? {
            drivers.insert(name, Box::new(driver));
        }
    }
    Ok(drivers)
}

/// Returns the record of devices that may have circuits. Fails if one has no driver, unless it is given up.
fn device_record(
    settings: &Settings,
    drivers: &BTreeMap<String, Box<dyn Driver>>,
) -> Result<DeviceRecord, Error> {
    let mut given_up = settings.given_up.iter();
    if let Some(name) = given_up.find(|name| drivers.contains_key(*name)) {
        return Err(Fault::GivenUpDevice(name.clone()).into());
    }
    let path = with_end(&seen(settings).with_extension(""), "devices");
    let record = DeviceRecord::open(&path);
    let record = record.map_err(|e| Error::file(FileAction::Open, &path, &e))?;
    let missing = record.names().iter();
    let missing = missing
        .filter(|name| !drivers.contains_key(*name) && !settings.given_up.contains(*name))
        .cloned();
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return Ok(record);
    }
    Err(Fault::MissingDevices(missing).into())
}

/// Fails the reservations of devices that are given up, and forgets these devices.
fn give_up(settings: &Settings, books: &Books, record: &mut DeviceRecord) -> Result<(), Error> {
    for name in &settings.given_up {
        let failed_ids = circuits::give_up(books, name).map_err(failed)?;
        if record.names().contains(name) || !failed_ids.is_empty() {
            warn!(
                "device {name} is given up, with {} reservations; remove its circuits by hand",
                failed_ids.len()
            );
        }
    }
    let forgotten = record.remove(&settings.given_up);
    forgotten.map_err(|e| failed(e.into()))
}

/// Reads the settings of switches. Refuses a name that several options give to a device, before any is opened.
fn switches(settings: &Settings) -> Result<Vec<SwitchConfig>, Error> {
    let switches = settings.switches.iter();
    let switches = switches.map(|file| SwitchConfig::read(file).map_err(Fault::Circuit));
    let switches: Vec<SwitchConfig> = switches.collect::<Result<_, _>>()?;
    let shaped = settings.interfaces.iter().map(|(name, _)| name);
    let driven = settings.devices.iter().map(|one| &one.device);
    let switched = switches.iter().flat_map(|switch| switch.interfaces.keys());
    let mut seen = BTreeSet::new();
    for name in shaped.chain(driven).chain(switched) {
        if !seen.insert(name) {
            return Err(Fault::SameDevice(name.clone()).into());
        }
    }
    Ok(switches)
}

/// Interval at which the file of policies is read.
const LOOK: Duration = Duration::from_secs(1);

/// Returns the configuration of the books, and the policy file to watch.
fn config(settings: &Settings) -> Result<(Config, Option<PolicyFile>), Error> {
    let usual = Policy {
        quota: settings.books.quota,
        ..Policy::default()
    };
    let (watch, policies) = if let Some(path) = &settings.books.policy {
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
        hold: settings.books.hold,
        policy: policies.default,
        policies: policies.listed,
        position_file: Some(seen(settings)),
        accept_restored: settings.books.accept_restored,
        ..Config::default()
    };
    config.calendar.horizon = settings.books.horizon;
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

/// Returns the scheme of this scheduler's URL.
const fn scheme(settings: &Settings) -> &'static str {
    match settings.rest.certificate {
        ServerCertificate::Plain => "http",
        ServerCertificate::SelfSigned(_) | ServerCertificate::Files { .. } => "https",
    }
}

/// Returns the credentials that are accepted.
fn authenticator(access: &Access) -> Result<Authenticator, Error> {
    let path = &access.tokens;
    let issuer = match &access.issuer {
        Some((issuer, url)) => Some((issuer.clone(), keys(url)?)),
        None => None,
    };
    if issuer.is_none() && !path.exists() {
        let path = path.display();
        warn!(
            "no client may connect yet: `lighthaul token NAME --role user` lists a token in {path}"
        );
    }
    Ok(Authenticator {
        tokens: Some(tokens(path)?),
        issuer,
    })
}

/// Returns the keys of a trusted issuer, from their URL.
fn keys(url: &str) -> Result<Keys, Error> {
    if !stays_private(url) {
        return Err(Fault::ForgeableKeys(url.to_owned()).into());
    }
    let agent = fetcher().map_err(|e| Fault::Tls(e.to_string()))?;
    let keys = Keys::new(agent, url.to_owned());
    if !keys.warm(unix_nanos() / 1_000_000_000) {
        warn!("no keys from {url} yet: signed tokens are refused until the keys are known");
    }
    Ok(keys)
}

/// Returns the tokens of a file.
fn tokens(path: &Path) -> Result<Tokens, Error> {
    Tokens::open(path).map_err(|e| Error::file(FileAction::ReadKeys, path, &e))
}

/// Returns the check of other schedulers at the store: a certificate, or this host's key.
fn peers(key: Fingerprint) -> ServerTrust {
    ServerTrust {
        by_certificate: true,
        by_key: Box::new(move |shown| {
            let why = || {
                format!("it has the key {shown}: give all instances the same key, or certificates")
            };
            (shown == key).then_some(()).ok_or_else(why)
        }),
    }
}

fn failed(refused: Refused) -> Error {
    Fault::Books(refused).into()
}

#[cfg(test)]
mod tests {
    use lighthaul_session::error::Code;

    use super::*;

    fn settings(store: &str, listen: &str, url: Option<&str>) -> Settings {
        Settings {
            topology: "t".into(),
            link_capacity: None,
            books: BookSettings {
                store: Some(store.to_owned()),
                accept_restored: false,
                policy: None,
                quota: Quota::default(),
                hold: Duration::from_mins(1),
                horizon: Duration::from_hours(1),
            },
            interfaces: Vec::new(),
            devices: Vec::new(),
            switches: Vec::new(),
            given_up: BTreeSet::new(),
            nsi: None,
            jobs: None,
            rest: RestSettings {
                listen: listen.parse().unwrap(),
                url: url.map(str::to_owned),
                certificate: ServerCertificate::Files {
                    chain: PathBuf::new(),
                    key: PathBuf::new(),
                },
                insecure: false,
                requests_per_second: 1,
                limits: Limits::default(),
            },
            key: Identity::generate(),
            access: Access {
                tokens: PathBuf::new(),
                issuer: None,
            },
        }
    }

    const BOOKS: &str = "postgres://books@db/books";
    const ONE: &str = "https://one.example.org:4811";
    const TWO: &str = "https://two.example.org:4811";

    #[test]
    fn indistinguishable_instances_of_a_store_are_refused() {
        let any = settings(BOOKS, "127.0.0.1:0", None);
        assert_eq!(run(&any).unwrap_err().code(), Code::Usage);
        let why = check_address(&any).unwrap_err().to_string();
        assert!(why.contains("at port 0"), "{why}");
        for settings in [
            settings(BOOKS, "127.0.0.1:0", Some(ONE)),
            settings(BOOKS, "127.0.0.1:4811", None),
            // a file with books has one instance
            settings("/srv/books", "127.0.0.1:0", None),
        ] {
            assert_eq!(check_address(&settings), Ok(()), "{settings:?}");
        }
    }

    #[test]
    fn schedulers_with_the_same_store_have_separate_position_files() {
        let here = "127.0.0.1:4811";
        let one = seen(&settings(BOOKS, here, None));
        assert_eq!(one, seen(&settings(BOOKS, here, None)));
        for other in [
            settings(BOOKS, "127.0.0.1:4812", None),
            settings(BOOKS, here, Some(TWO)),
            settings("postgres://books@db/others", here, None),
        ] {
            assert_ne!(one, seen(&other), "{other:?}");
        }
        // a file with books has one instance
        for listen in [here, "127.0.0.1:4812"] {
            let note = seen(&settings("/srv/books", listen, None));
            assert_eq!(note, Path::new("/srv/books.seen"));
        }
    }

    #[test]
    fn device_with_circuits_needs_its_driver_until_it_is_given_up() {
        let folder = std::env::temp_dir().join(format!("lost-device-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let store = folder.join("books");
        fs::write(folder.join("books.devices"), "[\"sw1\"]").unwrap();
        let mut settings = settings(store.to_str().unwrap(), "127.0.0.1:0", None);
        let error = device_record(&settings, &BTreeMap::new()).unwrap_err();
        assert_eq!(error.code(), Code::Usage);
        assert!(error.text().contains("--give-up sw1"), "{error}");
        settings.given_up.insert("sw1".to_owned());
        let record = device_record(&settings, &BTreeMap::new()).unwrap();
        assert_eq!(record.names(), &settings.given_up);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn invalid_store_is_refused() {
        for (place, says) in [
            (
                "mysql://x",
                "store mysql://: give a file or a postgres:// URL",
            ),
            ("/nonexistent/b", "the directory /nonexistent of the store"),
        ] {
            let why = named(place).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        }
        for place in ["books", "/tmp/books"] {
            assert_eq!(named(place).unwrap(), Path::new(place));
        }
    }

    #[test]
    fn device_with_several_drivers_is_refused_for_any_options() {
        let folder = std::env::temp_dir().join(format!("same-device-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let login = folder.join("login");
        fs::write(&login, "ada\nsecret\n").unwrap();
        let switch = folder.join("switch.toml");
        let text = format!(
            "address = \"127.0.0.1\"\ndialect = \"calient\"\nlogin = \"{}\"\nrecords = \"{}\"\n\
             channel_rate = \"10Gb/s\"\nreconfiguration = \"10ms\"\n[interfaces]\nwan = [[\"1.1.1\", \"2.1.1\"]]\n",
            login.display(),
            folder.display()
        );
        fs::write(&switch, text).unwrap();
        let shaped = || vec![("wan".to_owned(), Rate::from_mbps(1))];
        let driven = || {
            vec![DriverProgram {
                device: "wan".to_owned(),
                program: PathBuf::from("/bin/driver"),
                arguments: Vec::new(),
            }]
        };
        let base = || settings(":memory:", "127.0.0.1:0", None);
        let refused = [
            Settings {
                interfaces: [shaped(), shaped()].concat(),
                ..base()
            },
            Settings {
                devices: [driven(), driven()].concat(),
                ..base()
            },
            Settings {
                interfaces: shaped(),
                devices: driven(),
                ..base()
            },
            Settings {
                interfaces: shaped(),
                switches: vec![switch.clone()],
                ..base()
            },
            Settings {
                devices: driven(),
                switches: vec![switch.clone()],
                ..base()
            },
            Settings {
                switches: vec![switch.clone(), switch.clone()],
                ..base()
            },
        ];
        for settings in refused {
            let error = drivers(&settings, Clock::start()).unwrap_err();
            assert_eq!(error.code(), Code::Usage);
            assert!(
                error.text().starts_with("device wan has several drivers"),
                "{error}"
            );
        }
        let alone = switches(&Settings {
            switches: vec![switch],
            ..base()
        });
        assert_eq!(alone.unwrap().len(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
