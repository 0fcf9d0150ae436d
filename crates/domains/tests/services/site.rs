//! Domains in a chain, `1 - 2 - 3`, or in a ring. Link `n` connects the domains `n` and `n + 1`; domain `n` has the
//! access port `100 + n`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_domains::{Devices, DomainConfig, RecordStore, Service, Status};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::request::Excludes;
use lighthaul_stargate::{
    CorrelationId, DomainId, Outcome, PortId, Protection, Record, Request, Signaling, Stage,
};
use lighthaul_testkit::Turn;

use crate::measured::books::disagreement;
use crate::measured::configuration::Member;
pub(crate) use crate::measured::configuration::Pinned;
use crate::recording::RecordingDevices;

/// Directory of a test, which is empty at the start and removed at the end. The test has its turn until then.
pub(crate) struct Folder(
    pub(crate) PathBuf,
    #[expect(dead_code, reason = "it is only dropped")] Turn,
);

impl Folder {
    /// Creates the directory of a test that runs beside others.
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, Turn::beside_others())
    }

    /// Creates the directory of a test that measures.
    pub(crate) fn alone(name: &str) -> Self {
        Self::with(name, Turn::alone())
    }

    fn with(name: &str, turn: Turn) -> Self {
        let path = Self::path(name);
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        Self(path, turn)
    }

    pub(crate) fn path(name: &str) -> PathBuf {
        let name = format!("domains-{name}-{}", std::process::id());
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
    }

    pub(crate) fn identity(&self, domain: u32) -> Identity {
        Identity::load_or_generate(&self.0.join(format!("{domain}.key"))).unwrap()
    }

    pub(crate) fn key(&self, domain: u32) -> Fingerprint {
        Fingerprint::of_public(&self.identity(domain).public())
    }

    pub(crate) fn store(&self, domain: u32) -> PathBuf {
        self.0.join(format!("{domain}.db"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Returns the configuration of a domain in a chain of `count`.
pub(crate) fn text(me: u32, count: u32, listen: SocketAddr, neighbors: &[Pinned]) -> String {
    member_text((me, count, false), listen, neighbors)
}

fn member_text(
    (me, count, is_ring): (u32, u32, bool),
    listen: SocketAddr,
    neighbors: &[Pinned],
) -> String {
    let member = Member {
        me,
        count,
        is_ring,
        listen,
        capacity: "10Gb/s",
        timing: "[timing]\nquery = \"1s\"\nhold = \"3s\"\ndecide = \"1s\"\nretry = \"100ms\"\n\
                 refresh = \"1s\"\nlinger = \"4s\"\nclock_tolerance = \"2s\"\n",
        policy: "horizon = \"2h\"\n",
    };
    member.text(neighbors)
}

/// Running domains of a chain or a ring, by their numbers. At the end, their books must agree.
pub(crate) struct Chain {
    pub(crate) folder: Folder,
    pub(crate) count: u32,
    pub(crate) configs: BTreeMap<u32, String>,
    pub(crate) devices: BTreeMap<u32, RecordingDevices>,
    pub(crate) services: BTreeMap<u32, Service>,
}

impl Chain {
    /// Starts all domains. Each connects to the one before it.
    pub(crate) fn start(name: &str, count: u32, change: impl Fn(String) -> String) -> Self {
        Self::launch_all(name, (count, false), change)
    }

    /// Starts all domains of a ring.
    pub(crate) fn ring(name: &str, count: u32) -> Self {
        Self::launch_all(name, (count, true), |text| text)
    }

    fn launch_all(
        name: &str,
        (count, is_ring): (u32, bool),
        change: impl Fn(String) -> String,
    ) -> Self {
        let mut chain = Self {
            folder: Folder::new(name),
            count,
            configs: BTreeMap::new(),
            devices: BTreeMap::new(),
            services: BTreeMap::new(),
        };
        for me in 1..=count {
            let around = |end: u32| is_ring.then_some(1 + count - end);
            let before = if me > 1 { Some(me - 1) } else { around(me) };
            let after = if me < count { Some(me + 1) } else { around(me) };
            let neighbors = before.into_iter().chain(after).map(|number| {
                let running = chain.services.get(&number).map(Service::local);
                (number, running, chain.folder.key(number))
            });
            let neighbors: Vec<Pinned> = neighbors.collect();
            let text = change(member_text((me, count, is_ring), any_port(), &neighbors));
            let text = chain.launch(me, &text);
            chain.configs.insert(me, text);
        }
        chain.wait_until("all links are up", |statuses| {
            let links = statuses.values().flat_map(|status| status.links.values());
            links.clone().count() == 2 * (count as usize - usize::from(!is_ring))
                && links.clone().all(|one| one.is_connected)
        });
        chain
    }

    /// Starts a domain. Returns its configuration with the port on which it listens.
    fn launch(&mut self, me: u32, text: &str) -> String {
        let config = DomainConfig::parse(text, &self.folder.0).unwrap();
        let devices = self.devices.entry(me).or_default().clone();
        let devices: Box<dyn Devices> = if config.devices.drivers.is_empty() {
            Box::new(devices)
        } else {
            Box::new(config.devices.open().unwrap())
        };
        let service = Service::start(config, devices).unwrap();
        let local = service.local().to_string();
        self.services.insert(me, service);
        text.replace(&any_port().to_string(), &local)
    }

    /// Starts a domain again after it was stopped.
    pub(crate) fn restart(&mut self, me: u32) {
        let text = self.configs[&me].clone();
        self.launch(me, &text);
    }

    pub(crate) fn stop(&mut self, me: u32) {
        self.services.remove(&me).unwrap().stop().unwrap();
    }

    /// Requests a path over the whole chain and returns the first outcome.
    pub(crate) fn request(&self, id: u128, change: impl Fn(&mut Request)) -> Outcome {
        let mut request = request(id, self.count);
        change(&mut request);
        let ticket = self.services[&1].handle().request(request).unwrap();
        ticket.wait(PATIENCE).unwrap().expect("an outcome in time")
    }

    pub(crate) fn statuses(&self) -> BTreeMap<u32, Status> {
        let services = self.services.iter();
        services
            .map(|(me, service)| (*me, service.handle().status().unwrap()))
            .collect()
    }

    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&BTreeMap<u32, Status>) -> bool) {
        let clock = Clock::start();
        while !is_so(&self.statuses()) {
            let waited = clock.now().since(Instant::ZERO);
            assert!(waited < PATIENCE, "{what}: {:#?}", self.statuses());
            pause(Duration::from_millis(20));
        }
    }

    /// Waits until no domain has a reservation, and checks that no store has a record then.
    pub(crate) fn assert_released(mut self) {
        self.wait_until("all reservations are forgotten", |statuses| {
            statuses.values().all(|one| one.reservations.is_empty())
        });
        for me in 1..=self.count {
            self.stop(me);
            assert_eq!(records(&self.folder.store(me), me), []);
            assert_eq!(self.devices[&me].recorded().rates, BTreeMap::new());
        }
    }
}

impl Drop for Chain {
    /// Waits until the books of the running domains agree.
    fn drop(&mut self) {
        let clock = Clock::start();
        while !thread::panicking() {
            let services = self.services.iter();
            // a service that has ended has no status
            let statuses =
                services.filter_map(|(me, one)| Some((*me, one.handle().status().ok()?)));
            let Some(why) = disagreement(&statuses.collect()) else {
                return;
            };
            assert!(clock.now().since(Instant::ZERO) < PATIENCE, "{why}");
            pause(Duration::from_millis(20));
        }
    }
}

/// Returns the records of a store that no service uses.
pub(crate) fn records(path: &Path, me: u32) -> Vec<Record> {
    RecordStore::open(path, DomainId(me)).unwrap().1
}

/// Returns the committed vectors of a domain: what neighbors must agree on.
pub(crate) fn book(status: &Status) -> BTreeSet<(CorrelationId, u8, String)> {
    let committed = status
        .reservations
        .iter()
        .filter(|one| one.stage == Stage::Committed);
    let vector = committed.map(|one| {
        let key = one.stored.key;
        (key.id, key.attempt, one.stored.vector.to_string())
    });
    vector.collect()
}

/// Returns a request for 10 MB at up to 100 Mb/s over a chain.
pub(crate) fn request(id: u128, count: u32) -> Request {
    let now = Instant::from_nanos(unix_nanos());
    Request {
        id: CorrelationId(id),
        ingress: PortId(101),
        to: DomainId(count),
        egress: PortId(100 + count),
        demand: Demand {
            bytes: 10_000_000,
            rate_max: Rate::from_mbps(100),
            rate_min: Rate::from_mbps(1),
        },
        from: now,
        till: now + Duration::from_hours(1),
        excludes: Excludes::default(),
        protection: Protection::None,
        signaling: Signaling::Chain,
    }
}

pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Longest wait for what must happen; a loaded machine needs seconds.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
