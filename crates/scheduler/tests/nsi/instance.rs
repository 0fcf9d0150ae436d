//! Scheduler in a process of its own, which a test can kill.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs};

use lighthaul_base::Rate;
use lighthaul_booking::books::{Books, Config, Principal};
use lighthaul_booking::error;
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking::store::{Batch, EventSize, Position, Store, Writer};
use lighthaul_booking_client::https::ServerTrust;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::role::Role;
use lighthaul_calendar::{Link, Topology};
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_nsi::provider::{Config as NsiConfig, Provider};
use lighthaul_scheduler::certificate::ServerCertificate;
use lighthaul_scheduler::connections::Limits;
use lighthaul_scheduler::identity::Authenticator;
use lighthaul_scheduler::identity::tokens::{self, Entry, Tokens};
use lighthaul_scheduler::nsi::BookResources;
use lighthaul_scheduler::serve::{Server, Settings};

/// Directory of a test, removed with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn make(name: &str) -> Self {
        static NTH: AtomicUsize = AtomicUsize::new(0);
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        let name = format!("nsi-{name}-{}-{nth}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Store of which another scheduler is the writer.
#[derive(Debug)]
struct Follower {
    store: Sqlite,
    writer: String,
}

impl Store for Follower {
    fn elect(&mut self) -> error::Result<Writer> {
        Ok(Writer::Other(self.writer.clone()))
    }

    fn append(&mut self, after: u64, batch: &Batch) -> error::Result<()> {
        self.store.append(after, batch)
    }

    fn position(&mut self) -> error::Result<Position> {
        self.store.position()
    }

    fn epoch_end(&mut self, epoch: &str) -> error::Result<Option<u64>> {
        self.store.epoch_end(epoch)
    }

    fn begin_epoch(&mut self, epoch: &str) -> error::Result<()> {
        self.store.begin_epoch(epoch)
    }

    fn changes(&mut self, after: u64) -> error::Result<Batch> {
        self.store.changes(after)
    }

    fn events(&mut self, after: u64, most: usize) -> error::Result<Vec<(u64, String)>> {
        self.store.events(after, most)
    }

    fn event_sizes(&mut self) -> error::Result<Vec<EventSize>> {
        self.store.event_sizes()
    }
}

/// Running scheduler.
pub(crate) struct Instance {
    child: Child,
    address: String,
}

impl Instance {
    /// Starts a scheduler with the books of a directory and these settings of NSI.
    pub(crate) fn start(folder: &Folder, config: &str) -> Self {
        fs::write(folder.0.join("nsi.toml"), config).unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["instance::serves", "--exact", "--ignored", "--nocapture"]);
        command.env(FOLDER, &folder.0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = said.map(Result::unwrap);
        let address = said.find_map(|line| Some(line.split_once(READY)?.1.to_owned()));
        let address = address.expect("the scheduler starts");
        // the next start has the same address
        fs::write(folder.0.join(ADDRESS), &address).unwrap();
        Self { child, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Kills the scheduler as a power failure would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().unwrap();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
#[ignore = "a process of other tests"]
fn serves() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let list = folder.join("tokens");
    let names = [
        ("agg", Role::User),
        ("ada", Role::User),
        ("olga", Role::Operator),
    ];
    for (name, role) in names {
        let entry = Entry {
            token: Fingerprint::of_token(name),
            bearer: Principal::new(name, role),
            expires: None,
        };
        tokens::add(&list, &entry).unwrap();
    }
    let store = Sqlite::open(&folder.join("books")).unwrap();
    let store: Box<dyn Store> = match fs::read_to_string(folder.join(WRITER)) {
        Ok(writer) => Box::new(Follower { store, writer }),
        Err(_) => Box::new(store),
    };
    let config = Config {
        hold: Duration::from_secs(3),
        ..Config::default()
    };
    let now = || Timestamp(unix_nanos());
    let books = Arc::new(Books::open(store, topology(), config, now).unwrap());
    let settings = fs::read_to_string(folder.join("nsi.toml")).unwrap();
    let settings = NsiConfig::parse(&settings).unwrap();
    let resources = Box::new(BookResources::new(Arc::clone(&books), &settings.nsa));
    let provider = Provider::open(settings, &folder.join("nsi"), resources, now).unwrap();
    let provider = Arc::new(provider);
    let woken = Arc::clone(&provider);
    books.listen(move || woken.wake());
    let before = fs::read_to_string(folder.join(ADDRESS));
    let listen = before.unwrap_or_else(|_| "127.0.0.1:0".to_owned());
    let server = Server::listen(Settings {
        listen: listen.parse().unwrap(),
        certificate: ServerCertificate::Plain,
        insecure: false,
        authenticator: Authenticator {
            tokens: Some(Tokens::open(&list).unwrap()),
            issuer: None,
        },
        books,
        jobs: None,
        requests_per_second: 10_000,
        limits: Limits::default(),
        peers: ServerTrust::certificate(),
        circuits: None,
        nsi: Some(provider),
    });
    let server = server.unwrap();
    println!("{READY}{}", server.address().unwrap());
    server.run().unwrap();
}

/// Returns the hosts a, b and c in a row with links of 1 Gb/s in both directions. A more expensive way of 100 Mb/s
/// leads over e, and d only sends.
fn topology() -> Topology {
    let row = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("d", "a")];
    let around = [("a", "e"), ("e", "a"), ("e", "c"), ("c", "e")];
    let link = |(from, to): (&str, &str), (mbps, cost)| Link {
        name: format!("{from}-{to}"),
        from: from.to_owned(),
        to: to.to_owned(),
        capacity: Rate::from_mbps(mbps),
        channel: Rate::from_mbps(1),
        guard: Duration::ZERO,
        cost,
    };
    let row = row.into_iter().map(|ends| link(ends, (1000, 1)));
    let around = around.into_iter().map(|ends| link(ends, (100, 5)));
    let nodes = ["a", "b", "c", "d", "e"].map(str::to_owned);
    Topology::new(nodes.to_vec(), row.chain(around).collect()).unwrap()
}

/// File with the URL of the writer, if it is another scheduler.
pub(crate) const WRITER: &str = "writer";
/// File with the address of the last start.
const ADDRESS: &str = "address";
const FOLDER: &str = "LIGHTHAUL_NSI_FOLDER";
const READY: &str = "listening on ";
