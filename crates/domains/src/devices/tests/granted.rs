//! Plans of a domain beside a device. Every vector that is granted carries its bytes, and no capacity is used twice
//! within a guard time. Nothing is refused that a look at each tick would grant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_base::trc::Trc;
use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_calendar::{Calendar, Config, Link, Owner, Topology};
use lighthaul_circuit::driver::{Capabilities, CountedBytes, Driver};
use lighthaul_circuit::sim_device::{FaultModel, SimDevice};
use lighthaul_io::host::clock::Clock;
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::{Agent, CalendarResources, PortId, Resources, Segment};

use crate::devices::driven::DrivenDevices;
use crate::devices::link_book::LinkBook;
use crate::devices::tests::example::{key, segment};
use crate::devices::{SegmentCircuit, SharedLink};

#[test]
fn granted_vectors_are_kept_by_devices_with_guard_times() {
    let first = 1;
    let (mut granted, mut refused, mut late) = (0, 0, 0);
    for seed in first..first + WORLDS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            let ahead = world.rng.below(6);
            world.pass(ahead * TICK);
            if world.rng.below(6) == 0 {
                world.release();
                continue;
            }
            match world.request() {
                Asked::Granted => granted += 1,
                Asked::Refused => refused += 1,
                Asked::Late => late += 1,
            }
        }
        world.pass(TICKS * TICK);
    }
    println!("{granted} granted, {refused} refused, {late} too late");
    assert!(granted > 2000 && refused > 500, "{granted}, {refused}");
}

/// Outcome of a request.
enum Asked {
    Granted,
    /// A look at each tick refuses it too.
    Refused,
    /// Vector that starts after the end of the test.
    Late,
}

/// Two interfaces with different guard times, and two circuits at each.
struct World {
    rng: Rng,
    seed: u64,
    now: Instant,
    resources: CalendarResources,
    agent: Agent,
    devices: DrivenDevices,
    sims: BTreeMap<&'static str, (SimDevice, u64)>,
    held: BTreeMap<u128, Held>,
    next: u128,
    /// Rates of each circuit, and the times from which they are in force.
    log: BTreeMap<Segment, Vec<(Instant, u64)>>,
}

struct Held {
    segment: Segment,
    vector: Trc,
    /// End of its use of capacity, if it was released.
    till: Option<Instant>,
}

impl World {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let guards = [rng.below(6), rng.below(3)];
        let capacities = [3 + rng.below(4), 3 + rng.below(4)];
        let sims = INTERFACES.iter().zip(guards.iter().zip(capacities));
        let sims = sims.map(|(name, (guard, capacity))| {
            let device = SimDevice::new(capabilities(*guard, capacity), HEALTHY, seed);
            (*name, (device, *guard))
        });
        let sims: BTreeMap<_, _> = sims.collect();
        let drivers = sims.iter().map(|(name, (device, _))| {
            let driver: Box<dyn Driver> = Box::new(device.clone());
            ((*name).to_owned(), driver)
        });
        let circuit = |segment: Segment| SegmentCircuit {
            interface: interface_of(segment).to_owned(),
            flow: format!("udp 10.0.0.{} 5000", segment.ingress.0)
                .parse()
                .unwrap(),
        };
        let circuits = SEGMENTS.map(|segment| (segment, circuit(segment)));
        let devices = DrivenDevices::new(drivers.collect(), circuits.into());
        let mut devices = devices.with_links(LinkBook::new(&shared_links()), Clock::start());
        assert_eq!(devices.apply_at(&|| Instant::ZERO, &[]), []);
        Self {
            rng,
            seed,
            now: Instant::ZERO,
            resources: resources(&sims),
            agent: Agent::default(),
            devices,
            sims,
            held: BTreeMap::new(),
            next: 0,
            log: BTreeMap::new(),
        }
    }

    /// Asks for a path, and compares a refusal with a look at each tick.
    fn request(&mut self) -> Asked {
        let segment = SEGMENTS[self.rng.below(4) as usize];
        let ahead = self.rng.below(9);
        let bytes = 1 + self.rng.below(30);
        let most = 1 + self.rng.below(6);
        let from = self.now + Duration::from_nanos(ahead * TICK + 1);
        let last = from.as_nanos() / TICK + 4 + self.rng.below(40);
        let till = at(last.min(TICKS));
        let demand = Demand {
            bytes,
            rate_max: kbps(most).unwrap(),
            rate_min: kbps(1).unwrap(),
        };
        if from >= till {
            return Asked::Late;
        }
        let offer = self.resources.free(segment, from, till).unwrap();
        let Ok(vector) = offer.fit(&demand, from) else {
            let carried = self.most_carried(segment, (from, till), most);
            let seed = self.seed;
            assert!(carried < bytes, "seed {seed}: refused {bytes} of {carried}");
            return Asked::Refused;
        };
        let id = self.next;
        self.next += 1;
        let held = self.resources.hold(self.now, key(id), &[segment], &vector);
        assert_eq!(held, Ok(()), "seed {}: {vector}", self.seed);
        self.agent
            .program((key(id), 0), (segment, 0), vector.clone());
        let till = None;
        let one = Held {
            segment,
            vector,
            till,
        };
        assert!(
            self.carried(&one) >= u128::from(bytes),
            "seed {}",
            self.seed
        );
        self.held.insert(id, one);
        Asked::Granted
    }

    /// Releases the path of a request.
    fn release(&mut self) {
        let open = self.held.iter().filter(|(_, one)| one.till.is_none());
        let open: Vec<u128> = open.map(|(id, _)| *id).collect();
        if open.is_empty() {
            return;
        }
        let id = open[self.rng.below(open.len() as u64) as usize];
        self.resources.release(self.now, key(id));
        self.agent.unprogram((key(id), 0));
        let one = self.held.get_mut(&id).unwrap();
        if self.now < one.vector.start() {
            self.held.remove(&id);
        } else {
            one.till = Some(self.now);
        }
        self.apply();
    }

    /// Passes time from one change to the next one.
    fn pass(&mut self, nanos: u64) {
        let till = self.now + Duration::from_nanos(nanos);
        loop {
            self.apply();
            let next = self.agent.poll_timeout(self.now).unwrap_or(Instant::NEVER);
            let next = next.min(self.devices.next_end().unwrap_or(Instant::NEVER));
            if next > till {
                break;
            }
            self.now = next;
        }
        self.now = till;
        self.apply();
    }

    fn apply(&mut self) {
        let (now, seed) = (self.now, self.seed);
        let changes = self.agent.changes(now);
        assert_eq!(self.devices.apply_at(&|| now, &changes), [], "seed {seed}");
        for segment in SEGMENTS {
            let rate = self.rate_of(segment);
            let log = self.log.entry(segment).or_default();
            if log.last().map_or(0, |last| last.1) != rate {
                log.push((now, rate));
            }
            let live = self.held.values().filter(|one| one.segment == segment);
            let live = live.filter(|one| one.till.is_none());
            let planned = live.filter_map(|one| one.vector.rate_at(now));
            let planned: u64 = planned.map(Rate::as_bps).sum();
            // an increase that waits would carry less than was granted
            assert_eq!(rate, planned, "seed {seed}: {segment:?} at {now}");
        }
        for (name, (device, _)) in &self.sims {
            let capacity = device.capabilities().rate_max.as_bps();
            self.check_use(name, capacity, |one| interface_of(one) == *name);
        }
        for port in [1, 2] {
            let name = format!("port {port}");
            self.check_use(&name, PORT * 1000, |one| one.ingress == PortId(port));
        }
    }

    /// Checks that circuits use no capacity twice, each one until a guard time after a decrease.
    fn check_use(&self, name: &str, capacity: u64, is_here: impl Fn(Segment) -> bool) {
        let circuits = SEGMENTS.into_iter().filter(|one| is_here(*one));
        let most: u64 = circuits.map(|one| self.most_recent(one)).sum();
        let (seed, now) = (self.seed, self.now);
        assert!(
            most <= capacity,
            "seed {seed}: {most} of {capacity} of {name} at {now}"
        );
    }

    /// Returns the present rate of a circuit at its device.
    fn rate_of(&self, segment: Segment) -> u64 {
        let (device, _) = &self.sims[interface_of(segment)];
        let installed = device.circuits();
        let mut found = installed.values().filter(|one| {
            let flow = format!("udp 10.0.0.{} 5000", segment.ingress.0);
            one.flow == Some(flow.parse().unwrap())
        });
        let rate = found.next().and_then(|one| one.rate);
        rate.map_or(0, Rate::as_bps)
    }

    /// Returns the highest rate of a circuit within its guard time.
    fn most_recent(&self, segment: Segment) -> u64 {
        let Some(log) = self.log.get(&segment) else {
            return 0;
        };
        let guard = Duration::from_nanos(self.guard_of(segment) * TICK);
        let since = Instant::ZERO + self.now.since(Instant::ZERO + guard);
        let ends = log.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.chain([Instant::NEVER]);
        let recent = log.iter().zip(ends).filter(|(_, end)| *end > since);
        recent.map(|((_, rate), _)| *rate).max().unwrap_or(0)
    }

    /// Returns the bytes that a vector carries: a rate is in use after a guard time.
    fn carried(&self, one: &Held) -> u128 {
        let guard = Duration::from_nanos(self.guard_of(one.segment) * TICK);
        let steps = one.vector.steps();
        let points = steps
            .iter()
            .flat_map(|step| [step.from, step.till, step.from + guard, step.till + guard]);
        let points: BTreeSet<Instant> = points.collect();
        let points: Vec<Instant> = points.into_iter().collect();
        let work: u128 = points
            .windows(2)
            .map(|pair| {
                let since = Instant::ZERO + pair[0].since(Instant::ZERO + guard);
                let inside = points.iter().filter(|at| since <= **at && **at <= pair[0]);
                let rates = inside
                    .chain([&since])
                    .map(|at| one.vector.rate_at(*at).map_or(0, Rate::as_bps));
                u128::from(rates.min().unwrap_or(0)) * pair[1].since(pair[0]).as_nanos()
            })
            .sum();
        work / 8_000_000_000
    }

    /// Returns the bytes that a path can carry, from a look at each tick that is wholly free.
    fn most_carried(&self, segment: Segment, (from, till): (Instant, Instant), most: u64) -> u64 {
        let guard = self.guard_of(segment);
        let last = till.as_nanos() / TICK;
        let first = from.as_nanos().div_ceil(TICK);
        let ticks = first..last + guard;
        let free: Vec<u64> = ticks.map(|tick| self.free_in(segment, tick)).collect();
        let windows = free.windows(guard as usize + 1);
        let usable: Vec<u64> = windows
            .map(|window| window.iter().copied().min().unwrap_or(0).min(most))
            .collect();
        let of_channel = |channel: u64| -> u64 {
            let runs = usable.split(|rate| *rate < channel);
            runs.map(|run| (run.len() as u64).saturating_sub(guard))
                .sum()
        };
        (1..=most).map(of_channel).sum()
    }

    /// Returns the free rate in a tick: each other vector has its highest rate since the start of its guard time.
    fn free_in(&self, segment: Segment, tick: u64) -> u64 {
        let of = |is_here: &dyn Fn(Segment) -> bool, capacity: u64| {
            let others = self.held.values().filter(|one| is_here(one.segment));
            let used: u64 = others.map(|one| self.used_in(one, tick)).sum();
            capacity.saturating_sub(used)
        };
        let name = interface_of(segment);
        let capacity = self.sims[name].0.capabilities().rate_max.as_bps() / 1000;
        let at_interface = of(&|one| interface_of(one) == name, capacity);
        let at_ingress = of(&|one| one.ingress == segment.ingress, PORT);
        at_interface.min(at_ingress)
    }

    fn used_in(&self, one: &Held, tick: u64) -> u64 {
        let guard = Duration::from_nanos(self.guard_of(one.segment) * TICK);
        let released = one.till.unwrap_or(Instant::NEVER);
        let steps = one.vector.steps().iter();
        let near = steps.filter(|step| {
            let is_begun = step.from <= released && step.from < at(tick + 1);
            is_begun && at(tick) < step.till.min(released) + guard
        });
        near.map(|step| step.rate.as_bps() / 1000)
            .max()
            .unwrap_or(0)
    }

    fn guard_of(&self, segment: Segment) -> u64 {
        self.sims[interface_of(segment)].1
    }
}

/// Returns the links of the ports, each of which has two circuits.
fn shared_links() -> Vec<SharedLink> {
    let link = |port: u32, name: String| {
        let here = SEGMENTS.iter().filter(|one| {
            let ends = [one.ingress, one.egress];
            ends.contains(&PortId(port))
        });
        SharedLink {
            name,
            capacity: kbps(PORT).unwrap(),
            routes: here.map(|one| (*one, 0)).collect(),
        }
    };
    (1..=4)
        .map(|port| link(port, format!("port {port}")))
        .collect()
}

/// Returns a star whose center is joined to each port, with two interfaces.
fn resources(sims: &BTreeMap<&'static str, (SimDevice, u64)>) -> CalendarResources {
    let mut links = Vec::new();
    let mut nodes = vec!["core".to_owned()];
    for port in 1..=4 {
        let node = format!("p{port}");
        for (name, from, to) in [
            (format!("in{port}"), &node, &nodes[0]),
            (format!("out{port}"), &nodes[0], &node),
        ] {
            links.push(Link {
                name,
                from: from.clone(),
                to: to.clone(),
                capacity: kbps(PORT).unwrap(),
                channel: kbps(1).unwrap(),
                guard: Duration::ZERO,
                cost: 1,
            });
        }
        nodes.push(node);
    }
    let mut inside = Topology::new(nodes, links).unwrap();
    for (name, port) in INTERFACES.iter().zip([3, 4]) {
        let link = inside.link(&format!("out{port}")).unwrap();
        inside.attach(name, &[link]).unwrap();
        let limits = sims[name].0.capabilities().limits();
        inside.set_limits(name, limits).unwrap();
    }
    let ports = (1..=4).map(|port| (PortId(port), inside.node(&format!("p{port}")).unwrap()));
    let ports = ports.collect();
    let calendar = Calendar::new(inside, Config::default()).unwrap();
    CalendarResources::new(calendar, ports, Owner(0), 1)
}

fn capabilities(guard: u64, capacity: u64) -> Capabilities {
    Capabilities {
        rate_min: kbps(1).unwrap(),
        rate_max: kbps(capacity).unwrap(),
        granularity: kbps(1).unwrap(),
        reconfiguration: Duration::from_nanos(guard * TICK),
        settling: Duration::ZERO,
        entries_max: 64,
        counted: CountedBytes::IP,
        timer_max: None,
    }
}

fn interface_of(segment: Segment) -> &'static str {
    INTERFACES[segment.egress.0 as usize - 3]
}

fn kbps(number: u64) -> Option<Rate> {
    Rate::from_bps(number * 1000)
}

fn at(tick: u64) -> Instant {
    Instant::from_nanos(tick * TICK)
}

const INTERFACES: [&str; 2] = ["eth1", "eth2"];
const SEGMENTS: [Segment; 4] = [segment(1, 3), segment(2, 3), segment(1, 4), segment(2, 4)];
/// Time in which 1 kb/s carries one byte.
const TICK: u64 = 8_000_000;
/// Length of a world.
const TICKS: u64 = 120;
/// Capacity of each port in kb/s.
const PORT: u64 = 8;
const WORLDS: u64 = 300;
const STEPS: u64 = 30;
const HEALTHY: FaultModel = FaultModel {
    latency_max: Duration::ZERO,
    fail_ppb: 0,
};
