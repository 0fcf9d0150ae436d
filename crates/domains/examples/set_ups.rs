//! Times of set-ups, with the sockets, TLS and `SQLite` files of all domains:
//! `cargo run --release -p lighthaul-domains --example set_ups [ROUNDS] [DIRECTORY]`.
//!
//! - One path at a time over three domains, with a delay between neighbors. A set-up is three exchanges from end to end:
//!   query, hold, commit.
//! - 1,000 requests at one moment between random ends of ten domains, for more than the links carry. The books of all
//!   domains are then added up: no link exceeds its capacity at any time, and all domains agree on every path.
//! - Paths whose rates begin and end while the program runs: how far apart the devices of all domains get each change.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::unwrap_used, reason = "an example")]

mod chain;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_domains::{DeviceFault, Devices, Handle, Service};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::request::Excludes;
use lighthaul_stargate::{
    CorrelationId, DomainId, Outcome, PortId, Protection, RateChange, Request, Signaling, Stage,
    StoredReservation,
};

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds = args.next().map_or(21, |text| text.parse().unwrap());
    let folder = args
        .next()
        .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let folder = folder.join(format!("lighthaul-set-ups-{}", std::process::id()));
    println!(
        "| one way between neighbors | RTT from end to end | median set-up | longest | 3 RTT |"
    );
    println!("|---|---|---|---|---|");
    for delay in [0, 10, 20, 50] {
        one_at_a_time(&folder, Duration::from_millis(delay), rounds);
    }
    println!();
    many_at_once(&folder);
    boundaries(&folder, rounds);
}

/// Sets up one path after another over three domains, and prints a line of the table.
fn one_at_a_time(folder: &Path, delay: Duration, rounds: usize) {
    fs::create_dir_all(folder).unwrap();
    let services = chain::start(folder, (3, "400Gb/s"), delay, chain::recording);
    let handle = services[0].handle();
    let clock = Clock::start();
    let times = (0..rounds).map(|_| {
        let begun = clock.now();
        let ticket = handle
            .request(request([1, 3], Rate::from_mbps(100), FAR))
            .unwrap();
        let outcome = ticket.wait(Duration::from_mins(1)).unwrap();
        assert!(
            matches!(outcome, Some(Outcome::Committed { .. })),
            "{outcome:?}"
        );
        clock.now().since(begun)
    });
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "| {:.0} ms | {:.0} ms | {:.1} ms | {:.1} ms | {:.0} ms |",
        ms(delay),
        ms(delay * 4),
        ms(times[times.len() / 2]),
        ms(times[times.len() - 1]),
        ms(delay * 12)
    );
    stop(services, folder);
}

/// Requests 1,000 paths at once between ten domains, and checks all books.
fn many_at_once(folder: &Path) {
    const DOMAINS: u32 = 10;
    const CAPACITY: u64 = 10_000_000_000;
    fs::create_dir_all(folder).unwrap();
    let services = chain::start(
        folder,
        (DOMAINS, "10Gb/s"),
        Duration::ZERO,
        chain::recording,
    );
    let handles: Vec<Handle> = services.iter().map(Service::handle).collect();
    let seed = unix_nanos();
    let mut rng = Rng::new(seed);
    let clock = Clock::start();
    let tickets = (0..1000).map(|_| {
        let from = 1 + rng.below(u64::from(DOMAINS)) as u32;
        let to = (from + rng.below(u64::from(DOMAINS) - 1) as u32) % DOMAINS + 1;
        let rate = Rate::from_mbps(1000 + rng.below(4000));
        handles[from as usize - 1]
            .request(request([from, to], rate, FAR))
            .unwrap()
    });
    let tickets: Vec<_> = tickets.collect();
    let mut committed = BTreeSet::new();
    for ticket in &tickets {
        match ticket.wait(Duration::from_mins(2)).unwrap() {
            Some(Outcome::Committed { .. }) => {
                committed.insert(ticket.id);
            }
            Some(Outcome::Refused(_)) => {}
            outcome => panic!("{outcome:?}"),
        }
    }
    let took = clock.now().since(Instant::ZERO);
    let mut loads: BTreeMap<(u32, PortId, bool), Vec<StoredReservation>> = BTreeMap::new();
    for (service, me) in services.iter().zip(1..) {
        let reservations = service.handle().status().unwrap().reservations;
        let stored = reservations
            .into_iter()
            .filter(|one| one.stage == Stage::Committed);
        for one in stored.map(|one| one.stored) {
            assert!(
                committed.contains(&one.key.id),
                "{:?} is in the books of domain {me} alone",
                one.key
            );
            for segment in &one.segments {
                loads
                    .entry((me, segment.ingress, true))
                    .or_default()
                    .push(one.clone());
                loads
                    .entry((me, segment.egress, false))
                    .or_default()
                    .push(one.clone());
            }
        }
    }
    let fullest = loads.values().map(|paths| greatest(paths)).max().unwrap();
    assert!(fullest <= CAPACITY, "a port carries {fullest} b/s");
    println!(
        "seed {seed}: 1000 requests over {DOMAINS} domains ended in {:.2} s: {} committed, {} refused; \
         the fullest port carries {fullest} of {CAPACITY} b/s",
        took.as_secs_f64(),
        committed.len(),
        1000 - committed.len()
    );
    stop(services, folder);
}

/// Returns the greatest sum of the rates of reservations, which is greatest where one of them begins a step.
fn greatest(paths: &[StoredReservation]) -> u64 {
    let begins = paths
        .iter()
        .flat_map(|path| path.vector.steps())
        .map(|step| step.from);
    let rate = |path: &StoredReservation, at| path.vector.rate_at(at).map_or(0, Rate::as_bps);
    let sums = begins.map(|at| paths.iter().map(|path| rate(path, at)).sum());
    sums.max().unwrap_or(0)
}

/// Sets up paths that begin soon, and compares the times at which the devices of all domains get their changes.
fn boundaries(folder: &Path, rounds: usize) {
    fs::create_dir_all(folder).unwrap();
    let log = Log::default();
    let timed = || -> Box<dyn Devices> { Box::new(TimedDevices(Arc::clone(&log))) };
    let services = chain::start(folder, (3, "400Gb/s"), Duration::from_millis(20), timed);
    let handle = services[0].handle();
    let mut due = BTreeSet::new();
    for _ in 0..rounds {
        let soon = Duration::from_secs(2);
        let ticket = handle
            .request(request([1, 3], Rate::from_mbps(100), soon))
            .unwrap();
        let Some(Outcome::Committed { vector, .. }) = ticket.wait(Duration::from_mins(1)).unwrap()
        else {
            panic!("a path is not committed");
        };
        due.insert((ticket.id, true, vector.start()));
        due.insert((ticket.id, false, vector.end()));
    }
    let end = due.iter().map(|(_, _, at)| *at).max().unwrap_or_default();
    pause(end.since(Instant::from_nanos(unix_nanos())) + Duration::from_secs(1));
    let log = log.lock().unwrap();
    let mut apart = Vec::new();
    let mut late = Vec::new();
    for (id, begins, at) in &due {
        let times = &log[&(*id, *begins)];
        assert_eq!(times.len(), 3, "a device missed a change of {id:?}");
        let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        apart.push(last.since(*first).as_secs_f64() * 1e3);
        late.push(last.as_nanos().abs_diff(at.as_nanos()) as f64 / 1e6);
    }
    apart.sort_by(f64::total_cmp);
    late.sort_by(f64::total_cmp);
    println!(
        "{} changes of rates reach the devices of three domains within {:.2} ms of each other (median {:.2} ms), \
         at most {:.2} ms from their time",
        due.len(),
        apart[apart.len() - 1],
        apart[apart.len() / 2],
        late[late.len() - 1]
    );
    stop(services, folder);
}

/// Times at which devices got changes: of a request, and true where a rate begins.
type Log = Arc<Mutex<BTreeMap<(CorrelationId, bool), Vec<Instant>>>>;

/// Devices that record when each change arrives.
#[derive(Debug)]
struct TimedDevices(Log);

impl Devices for TimedDevices {
    fn reset(&mut self, at: Instant, rates: &[RateChange]) -> Vec<DeviceFault> {
        self.apply(at, rates)
    }

    fn apply(&mut self, _at: Instant, changes: &[RateChange]) -> Vec<DeviceFault> {
        let now = Instant::from_nanos(unix_nanos());
        for change in changes {
            let begins = change.rate.is_some_and(|rate| rate.as_bps() > 0);
            let change = (change.circuit.0.id, begins);
            self.0.lock().unwrap().entry(change).or_default().push(now);
        }
        Vec::new()
    }
}

fn stop(services: Vec<Service>, folder: &Path) {
    for service in services {
        service.stop().unwrap();
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Returns a request for a second at `rate`, which starts in the minute after `pause`, between the programs' ports of two
/// domains.
fn request(ends: [u32; 2], rate: Rate, pause: Duration) -> Request {
    let from = Instant::from_nanos(unix_nanos()) + pause;
    Request {
        id: Handle::new_id(),
        ingress: PortId(100 + ends[0]),
        to: DomainId(ends[1]),
        egress: PortId(100 + ends[1]),
        demand: Demand {
            bytes: rate.bytes_in(Duration::from_secs(1)),
            rate_max: rate,
            rate_min: rate,
        },
        from,
        till: from + Duration::from_mins(1),
        excludes: Excludes::default(),
        protection: Protection::None,
        signaling: Signaling::Chain,
    }
}

/// Time until the start of paths that never start while the program runs.
const FAR: Duration = Duration::from_secs(30);
