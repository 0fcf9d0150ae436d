//! Random test: each granted circuit is provisioned on a healthy device.
#![expect(clippy::unwrap_used, reason = "a test")]

#[expect(dead_code, reason = "used by other tests")]
#[path = "../../booking/tests/books/shared_store.rs"]
mod shared_store;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_booking::books::{Books, Config, Filter, Policy, Principal};
use lighthaul_booking::error::{Error, OverlapError};
use lighthaul_booking_client::json::{
    Bps, Bytes, Change as Resize, FlowAt, IsoDuration, NewOutage, NewReservation, Reservation,
    Shape, Timestamp,
};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_booking_client::role::Role;
use lighthaul_calendar::{Link, Topology};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::controller::{Controller, Event, Work};
use lighthaul_circuit::driver::{Capabilities, Change, CountedBytes, Driver};
use lighthaul_circuit::flow::Flow;
use lighthaul_circuit::sim_device::{FaultModel, SimDevice};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_scheduler::circuits::{CircuitDevices, CircuitUpdater, with_device_limits};
use shared_store::SharedStore;

/// `LIGHTHAUL_GRANTED_CASES` sets the number of requests; `.ci/run` makes 100,000.
#[test]
fn every_granted_circuit_is_provisioned_on_a_healthy_device() {
    #[expect(clippy::disallowed_methods, reason = "sets the duration")]
    let wanted = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let cases = wanted("LIGHTHAUL_GRANTED_CASES").unwrap_or(CASES);
    let first = wanted("LIGHTHAUL_GRANTED_SEED").unwrap_or_else(unix_nanos);
    let (mut outcomes, mut nth) = (Outcomes::default(), 0);
    while outcomes.requests < cases {
        let seed = first.wrapping_add(nth);
        nth += 1;
        println!("LIGHTHAUL_GRANTED_SEED={seed}");
        Scene::new(seed).play(&mut outcomes);
    }
    println!("{nth} worlds: {outcomes:?}");
    assert!(outcomes.provisioned > cases / 10, "{outcomes:?}");
    assert!(outcomes.overlaps > cases / 200, "{outcomes:?}");
    assert!(outcomes.foreign > cases / 50, "{outcomes:?}");
    assert!(outcomes.without_outage >= cases / 1000, "{outcomes:?}");
}

/// Counts of outcomes, which must all occur.
#[derive(Debug, Default)]
struct Outcomes {
    requests: u64,
    granted: u64,
    overlaps: u64,
    foreign: u64,
    provisioned: u64,
    /// Worlds without an outage, in which no reservation may fail.
    without_outage: u64,
}

/// Books, healthy devices, and a clock that the test sets.
struct Scene {
    rng: Rng,
    seed: u64,
    now: Arc<AtomicU64>,
    books: Arc<Books>,
    updater: CircuitUpdater<Devices>,
    ports: BTreeMap<String, Capabilities>,
    links: Vec<(String, u64)>,
    /// Interface of each link that has only one.
    only_ports: BTreeMap<String, String>,
    live: Vec<u64>,
    /// True if an outage was planned, even if it was lifted.
    had_outage: bool,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let now = Arc::new(AtomicU64::new(BEGIN));
        let (topology, ports) = topology(&mut rng);
        let link = |(_, link): (_, &Link)| (link.name.clone(), link.capacity.as_bps());
        let links = topology.links().map(link).collect();
        let only_ports = only_ports(&topology);
        let sims = ports.iter();
        let sims = sims.map(|(name, can)| (name.clone(), SimDevice::new(*can, HEALTHY, seed)));
        let sims: BTreeMap<String, SimDevice> = sims.collect();
        let drivers = sims.iter().map(|(name, sim)| {
            let driver: Box<dyn Driver> = Box::new(sim.clone());
            (name.clone(), driver)
        });
        let topology = with_device_limits(topology, &drivers.collect()).unwrap();
        let shared_store = SharedStore::default();
        shared_store.elect("one");
        let clock = Arc::clone(&now);
        let books = Books::open(
            shared_store.handle("one"),
            topology,
            config(&mut rng),
            move || Timestamp(clock.load(Ordering::Relaxed)),
        );
        let books = Arc::new(books.unwrap());
        let devices = Devices::new(&sims, &now);
        let updater = CircuitUpdater::new(Arc::clone(&books), devices, Timestamp(BEGIN));
        Self {
            rng,
            seed,
            now,
            books,
            updater,
            ports,
            links,
            only_ports,
            live: Vec::new(),
            had_outage: false,
        }
    }

    fn play(mut self, outcomes: &mut Outcomes) {
        for _ in 0..STEPS {
            self.act(outcomes);
            self.settle();
            self.check(outcomes);
            if self.rng.below(5) == 0 {
                let seconds = 1 + self.rng.below(6);
                self.pass(seconds, outcomes);
            }
        }
        self.pass(HORIZON, outcomes);
        outcomes.without_outage += u64::from(!self.had_outage);
    }

    fn act(&mut self, outcomes: &mut Outcomes) {
        match self.rng.below(12) {
            0 => self.change(|books, principal, id| books.release(principal, id, "").map(drop)),
            1 => self.change(|books, principal, id| books.terminate(principal, id, "").map(drop)),
            2 => {
                let resize = self.resize(4);
                self.change(|books, principal, id| books.extend(principal, id, &resize).map(drop));
            }
            3 => {
                let resize = self.resize(1);
                self.change(|books, principal, id| books.shrink(principal, id, &resize).map(drop));
            }
            4 if self.rng.below(4) == 0 => self.outage(),
            _ => self.reserve(outcomes),
        }
    }

    /// Changes a reservation; the change may be refused.
    fn change(
        &mut self,
        act: impl FnOnce(&Books, &Principal, u64) -> lighthaul_booking::Result<()>,
    ) {
        if self.live.is_empty() {
            return;
        }
        let nth = self.rng.below(self.live.len() as u64) as usize;
        act(&self.books, &operator(), self.live[nth]).ok();
    }

    fn resize(&mut self, most: u64) -> Resize {
        let amount = 1 + self.rng.below(most * 4);
        let is_size = self.rng.below(2) == 0;
        Resize {
            size: is_size.then_some(Bytes(amount * SECONDS_WORTH)),
            hold: (!is_size).then_some(IsoDuration(Duration::from_secs(amount))),
            why: String::new(),
        }
    }

    fn outage(&mut self) {
        let nth = self.rng.below(self.links.len() as u64) as usize;
        let from = self.ahead(10);
        let outage = NewOutage {
            link: self.links[nth].0.clone(),
            from: Some(from),
            till: Timestamp(from.0 + (1 + self.rng.below(5)) * SECOND),
            why: String::new(),
        };
        let view = self.books.outage(&operator(), &outage).unwrap();
        self.had_outage = true;
        if self.rng.below(2) == 0 {
            self.books.lift(&operator(), view.id).ok();
        }
    }

    fn reserve(&mut self, outcomes: &mut Outcomes) {
        outcomes.requests += 1;
        let principal = self.principal();
        let mut new = self.request();
        let is_foreign = principal.role == Role::User && !is_own(&principal, &new);
        match self.books.reserve(&principal, &new, None) {
            Ok(granted) => {
                assert!(!is_foreign, "seed {}: {principal:?} {new:?}", self.seed);
                outcomes.granted += 1;
                self.live.push(granted.id);
            }
            Err(Error::Policy(_)) => outcomes.foreign += u64::from(is_foreign),
            Err(Error::Overlap(why)) => {
                outcomes.overlaps += 1;
                // the suggested start is granted
                let OverlapError::Packets {
                    free: Some(free), ..
                } = why
                else {
                    return;
                };
                new.start = Some(free);
                match self.books.reserve(&principal, &new, None) {
                    Ok(granted) => self.live.push(granted.id),
                    Err(Error::Policy(_)) => {}
                    Err(why) => panic!("seed {}: {new:?}: {why}", self.seed),
                }
            }
            Err(Error::Request(_) | Error::Refused(_) | Error::Quota(_)) => {}
            Err(why) => panic!("seed {}: {new:?}: {why}", self.seed),
        }
    }

    fn principal(&mut self) -> Principal {
        match self.rng.below(6) {
            0 => Principal::new("ben", Role::User),
            1 | 2 => Principal::new("ada", Role::User),
            _ => operator(),
        }
    }

    fn request(&mut self) -> NewReservation {
        let nodes = ["a", "b", "c"];
        let from = self.rng.below(3) as usize;
        let to = (from + 1 + self.rng.below(2) as usize) % 3;
        let is_size = self.rng.below(2) == 0;
        let amount = 1 + self.rng.below(8);
        let rate_max = (self.rng.below(4) > 0).then(|| Bps((1 + self.rng.below(6)) * MBPS));
        NewReservation {
            from: Some(nodes[from].to_owned()),
            to: Some(nodes[to].to_owned()),
            size: is_size.then_some(Bytes(amount * SECONDS_WORTH)),
            hold: (!is_size).then_some(IsoDuration(Duration::from_secs(amount))),
            rate_max,
            start: (self.rng.below(2) == 0).then(|| self.ahead(12)),
            margin_percent: is_size.then_some(0),
            priority: Some(self.rng.below(3) as u8),
            shape: if self.rng.below(2) == 0 {
                Shape::Fixed
            } else {
                Shape::Varying
            },
            flow: (self.rng.below(6) > 0).then(|| self.flow()),
            commit: self.rng.below(8) > 0,
            ..NewReservation::default()
        }
    }

    fn flow(&mut self) -> FlowAt {
        let nth = self.rng.below(self.ports.len() as u64) as usize;
        let packets = match self.rng.below(12) {
            0 => "all".to_owned(),
            1 => "udp 5000".to_owned(),
            2 => "10.0.0.0/29".to_owned(),
            3 => "10.0.0.0/30".to_owned(),
            _ => {
                let (address, port) = (self.rng.below(5), 5000 + self.rng.below(2));
                format!("udp 10.0.0.{address} {port}-{}", port + self.rng.below(2))
            }
        };
        FlowAt {
            interface: self.ports.keys().nth(nth).unwrap().clone(),
            packets: packets.parse().unwrap(),
        }
    }

    fn ahead(&mut self, most: u64) -> Timestamp {
        let now = self.now.load(Ordering::Relaxed);
        Timestamp(now + self.rng.below(most) * SECOND)
    }

    /// Advances the time, and checks all promises at each step.
    fn pass(&mut self, seconds: u64, outcomes: &mut Outcomes) {
        for _ in 0..seconds {
            self.now.fetch_add(SECOND, Ordering::Relaxed);
            self.books.tick().unwrap();
            self.settle();
            self.check(outcomes);
        }
    }

    /// Exchanges pending updates between devices and books.
    fn settle(&self) {
        for _ in 0..3 {
            self.updater.update().unwrap();
            self.updater.devices().work();
        }
        self.updater.update().unwrap();
    }

    fn check(&mut self, outcomes: &mut Outcomes) {
        let all = self.books.list(&operator(), &Filter::default(), (0, 1000));
        let all = all.unwrap().items;
        for one in &all {
            let Some(why) = &one.failure else { continue };
            // only an outage may leave no capacity
            assert!(
                self.had_outage && why.contains("no other time or path is free"),
                "seed {}: {one:?}",
                self.seed
            );
        }
        let live: Vec<&Reservation> = all.iter().filter(|one| !one.state.is_final()).collect();
        self.live = live.iter().map(|one| one.id).collect();
        self.check_arrays(&live);
        let now = self.now.load(Ordering::Relaxed);
        for one in &live {
            let Some(flow) = &one.request.flow else {
                continue;
            };
            let guard = self.ports[&flow.interface].guard().as_nanos() as u64;
            let mut steps = one.steps.iter();
            let step = steps.find(|step| step.from.0 <= now && now < step.till.0);
            // a committed reservation with a current step must be active, whatever state it is stuck in
            let is_wanted = one.state != ReservationState::Reserved;
            // a recent change may wait for a decrease of another circuit
            let is_settled = one.changed.0 + guard <= now;
            let Some(step) = step.filter(|_| is_wanted && is_settled) else {
                continue;
            };
            let rate = self.updater.devices().rate(&flow.interface, one.id);
            assert_eq!(
                rate,
                Rate::from_bps(step.rate_bps),
                "seed {} at {}: {one:?} beside {:?}",
                self.seed,
                Timestamp(now),
                self.updater.devices().circuits()
            );
            assert_eq!(one.state, ReservationState::Active, "seed {}", self.seed);
            outcomes.provisioned += 1;
        }
    }

    /// Asserts for each second that no link, interface or packet is used twice.
    fn check_arrays(&self, live: &[&Reservation]) {
        let now = self.now.load(Ordering::Relaxed);
        let mut used: BTreeMap<&str, [u64; ARRAY]> = BTreeMap::new();
        let mut flows: BTreeMap<&str, Vec<(Flow, usize, usize)>> = BTreeMap::new();
        let cell = |at: Timestamp| (at.0.saturating_sub(now) / SECOND) as usize;
        for one in live {
            let flow = one.request.flow.iter().map(|flow| &flow.interface);
            let only = one.path.iter().filter_map(|link| self.only_ports.get(link));
            let names: BTreeSet<_> = one.path.iter().chain(flow).chain(only).collect();
            for name in names {
                let cells = used.entry(name).or_insert([0; ARRAY]);
                let flow = one.request.flow.as_ref();
                let guard = flow.map_or(0, |flow| self.ports[&flow.interface].guard().as_nanos());
                let mut own = [0; ARRAY];
                for step in &one.steps {
                    let till = Timestamp(step.till.0 + guard as u64);
                    for cell in &mut own[cell(step.from)..cell(till)] {
                        *cell = step.rate_bps.max(*cell);
                    }
                }
                cells.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
            let (Some(flow), Some(first)) = (&one.request.flow, one.steps.first()) else {
                continue;
            };
            let flows = flows.entry(&flow.interface).or_default();
            let (from, till) = (cell(first.from), cell(one.promised_end));
            for (other, begins, ends) in flows.iter() {
                let meet = from < *ends && *begins < till;
                assert!(
                    !meet || !other.overlaps(&flow.packets),
                    "seed {}: {one:?}",
                    self.seed
                );
            }
            flows.push((flow.packets, from, till));
            let most = self.ports[&flow.interface].entries_max;
            assert!(flows.len() <= most, "seed {}: {one:?}", self.seed);
        }
        let ports = self.ports.iter();
        let ports = ports.map(|(name, can)| (name.as_str(), can.rate_max.as_bps()));
        let links = self.links.iter().map(|(name, bps)| (name.as_str(), *bps));
        for (name, capacity) in links.chain(ports) {
            let cells = used.get(name).copied().unwrap_or([0; ARRAY]);
            assert!(
                cells.iter().all(|cell| *cell <= capacity),
                "seed {}: {name} {cells:?} {live:#?}",
                self.seed
            );
        }
    }
}

/// Devices in the time of the test.
struct Devices {
    devices: BTreeMap<String, RefCell<(Controller, SimDevice)>>,
    now: Arc<AtomicU64>,
}

impl Devices {
    fn new(sims: &BTreeMap<String, SimDevice>, now: &Arc<AtomicU64>) -> Self {
        let devices = sims.iter().map(|(name, sim)| {
            let keeper = Controller::new(sim.capabilities()).unwrap();
            (name.clone(), RefCell::new((keeper, sim.clone())))
        });
        Self {
            devices: devices.collect(),
            now: Arc::clone(now),
        }
    }

    /// Returns the rate of a circuit at its device.
    fn rate(&self, interface: &str, id: u64) -> Option<Rate> {
        let post = self.devices[interface].borrow();
        post.1.circuits().get(&CircuitId(id))?.rate
    }

    /// Advances all devices.
    fn work(&self) {
        let now = self.now();
        for post in self.devices.values() {
            let (keeper, sim) = &mut *post.borrow_mut();
            loop {
                match keeper.poll_work(now) {
                    Work::Wait(_) => break,
                    Work::Inspect => keeper.handle_inspected(now, sim.inspect()),
                    Work::Remove(id) => keeper.handle_removed(now, id, sim.remove(id)),
                    Work::Apply(changes) => {
                        for (id, rate) in changes {
                            let changes = [(keeper.circuit(id).unwrap().clone(), rate)];
                            let answer = sim.apply(&Change::list(&changes)).remove(0);
                            keeper.handle_applied(now, id, rate, answer);
                        }
                    }
                }
            }
        }
    }
}

impl CircuitDevices for Devices {
    fn names(&self) -> BTreeSet<String> {
        self.devices.keys().cloned().collect()
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.load(Ordering::Relaxed) - BEGIN)
    }

    fn circuits(&self) -> Vec<Circuit> {
        let mut all = Vec::new();
        for post in self.devices.values() {
            let post = post.borrow();
            all.extend(post.0.circuits().map(|(circuit, _)| circuit.clone()));
        }
        all
    }

    fn take(&self, circuit: Circuit, till: Instant) -> lighthaul_circuit::error::Result<()> {
        let post = &self.devices[&circuit.interface];
        post.borrow_mut().0.put(self.now(), circuit, till)
    }

    fn renew(&self, circuit: &Circuit, till: Instant) -> lighthaul_circuit::error::Result<()> {
        let post = &self.devices[&circuit.interface];
        post.borrow_mut().0.renew(self.now(), circuit.id, till)
    }

    fn release(&self, circuit: &Circuit) -> lighthaul_circuit::error::Result<()> {
        let post = &self.devices[&circuit.interface];
        post.borrow_mut().0.release(self.now(), circuit.id)
    }

    fn poll_event(&self) -> Option<(String, Event)> {
        self.devices.iter().find_map(|(name, post)| {
            let event = post.borrow_mut().0.poll_event()?;
            Some((name.clone(), event))
        })
    }
}

/// Returns three hosts, a few links between them, and interfaces at some of the links.
fn topology(rng: &mut Rng) -> (Topology, BTreeMap<String, Capabilities>) {
    let nodes = ["a", "b", "c"].map(str::to_owned).to_vec();
    let mut links = Vec::new();
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("b", "a"), ("a", "c")] {
        if links.len() > 2 && rng.below(2) == 0 {
            continue;
        }
        links.push(Link {
            name: format!("{from}-{to}"),
            from: from.to_owned(),
            to: to.to_owned(),
            capacity: Rate::from_mbps(2 + rng.below(6)),
            channel: Rate::from_mbps(1),
            guard: Duration::from_secs(rng.below(2)),
            cost: 1,
        });
    }
    let mut topology = Topology::new(nodes, links).unwrap();
    let ids: Vec<_> = topology.links().map(|(id, _)| id).collect();
    let mut ports = BTreeMap::new();
    for name in ["eth1", "eth2"] {
        let chosen = [(); 2].map(|()| ids[rng.below(ids.len() as u64) as usize]);
        topology.attach(name, &chosen).unwrap();
        let least = 1 + rng.below(2);
        let can = Capabilities {
            rate_min: Rate::from_mbps(least),
            rate_max: Rate::from_mbps(least + 1 + rng.below(6)),
            granularity: Rate::from_mbps(1 + rng.below(2)),
            reconfiguration: Duration::from_secs(rng.below(3)),
            settling: Duration::from_secs(rng.below(2)),
            entries_max: 1 + rng.below(6) as usize,
            counted: CountedBytes::IP,
            timer_max: None,
        };
        ports.insert(name.to_owned(), can);
    }
    (topology, ports)
}

fn only_ports(topology: &Topology) -> BTreeMap<String, String> {
    let only = topology.links().filter_map(|(id, link)| {
        let mut ports = topology
            .interfaces()
            .iter()
            .filter(|port| port.links.contains(&id));
        let first = ports.next()?;
        ports
            .next()
            .is_none()
            .then(|| (link.name.clone(), first.name.clone()))
    });
    only.collect()
}

fn config(rng: &mut Rng) -> Config {
    let policy = |prefix: &str, rng: &mut Rng| Policy {
        prefixes: vec![prefix.parse().unwrap()],
        rate_max: (rng.below(2) == 0).then(|| Rate::from_mbps(3 + rng.below(4))),
        ..Policy::default()
    };
    let mut config = Config {
        policies: [
            ("ada".to_owned(), policy("10.0.0.0/30", rng)),
            ("ben".to_owned(), policy("10.0.0.4/30", rng)),
        ]
        .into(),
        hold: Duration::from_secs(3),
        notice: Duration::from_secs(1),
        ..Config::default()
    };
    config.calendar.slot = Duration::from_secs(1);
    config.calendar.horizon = Duration::from_secs(HORIZON);
    config
}

/// Returns true if a request is only for packets to the identity itself.
fn is_own(principal: &Principal, new: &NewReservation) -> bool {
    let own = if principal.name == "ada" {
        "10.0.0.0/30"
    } else {
        "10.0.0.4/30"
    };
    let own: Flow = own.parse().unwrap();
    let Some(flow) = &new.flow else {
        return true;
    };
    let target = flow.packets.target();
    target.is_some_and(|target| own.target().unwrap().covers(target))
}

fn operator() -> Principal {
    Principal::new("olga", Role::Operator)
}

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 1_800_000_000 * SECOND;
const MBPS: u64 = 1_000_000;
/// Bits that 1 Mb/s carries in a second.
const SECONDS_WORTH: u64 = 125_000;
/// Horizon of bookings in seconds.
const HORIZON: u64 = 40;
/// Cells of an array, one for each second.
const ARRAY: usize = 64;
/// Number of actions in one world.
const STEPS: u64 = 40;
/// Requests in a short form.
const CASES: u64 = 4000;
const HEALTHY: FaultModel = FaultModel {
    latency_max: Duration::ZERO,
    fail_ppb: 0,
};
