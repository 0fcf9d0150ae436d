//! Benchmark of a calendar with many outstanding bookings:
//! `cargo run --release -p lighthaul-calendar --example calendar [MAX]`.
//!
//! File sizes and rates follow section 3.3 of the VBLS paper: bounded Pareto, 500 MB to 100 GB, and
//! 1, 5 or 10 of 100 channels of 10 Gb/s. The calendar is filled to the given number of outstanding
//! bookings. Then batches are released and booked again.
//!
//! Times are CPU times of the thread, so that other load does not count. p50 and p99 are of single
//! bookings; the rates are of batches. A view lists the bookings in a thousandth of the booked
//! time.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::unwrap_used, reason = "an example")]
#![expect(clippy::cast_sign_loss, reason = "sizes and times are not negative")]

use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_calendar::{
    Calendar, Config, Detail, Id, Link, Need, NodeId, Owner, Path, Request, Route, Shape, Topology,
};
use nix::time::{ClockId, clock_gettime};

fn main() {
    let most = std::env::args()
        .nth(1)
        .map_or(1_000_000, |most| most.parse().unwrap());
    println!(
        "| links | requests | outstanding | bookings/s | release+book/s | p50 µs | p99 µs | steps each | a view, µs | of bookings | list of the paper, bookings/s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let sizes = || {
        [1000, 10_000, 100_000, 1_000_000]
            .into_iter()
            .filter(|size| *size <= most)
    };
    for load in [Load::Ahead, Load::Now, Load::Fixed] {
        for size in sizes() {
            one_link(load, size);
        }
    }
    for size in sizes() {
        many_links(size);
    }
}

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    /// VBLS, with starts distributed over the booked time, at 0.7 of the capacity.
    Ahead,
    /// VBLS from now on, on a link that is booked as in [`Self::Ahead`].
    Now,
    /// FBLS, at 0.9 of the capacity.
    Fixed,
}

fn one_link(load: Load, size: u64) {
    let mut world = TestCalendar::new(single(), load, size);
    let link = world.calendar.topology().link("link").unwrap();
    let path = Path::new(world.calendar.topology(), vec![link]).unwrap();
    let list = if load == Load::Ahead {
        list(&mut world, size)
    } else {
        String::new()
    };
    world.run(
        &format!("1 | {load:?}"),
        &|_| Route::Along(Arc::clone(&path)),
        &list,
    );
}

fn many_links(size: u64) {
    let topology = ring();
    let nodes: Vec<NodeId> = (0..RING)
        .map(|nth| topology.node(&nth.to_string()).unwrap())
        .collect();
    // a path has two to four links, so that a hundred links carry about 25 times as much as one
    let mut world = TestCalendar::new(topology, Load::Ahead, size / 25);
    world.size = size;
    let route = |rng: &mut Rng| {
        let from = rng.below(RING);
        let to = (from + 1 + rng.below(RING - 1)) % RING;
        Route::Between(nodes[from as usize], nodes[to as usize])
    };
    world.run("100 | Ahead", &route, "");
}

struct TestCalendar {
    calendar: Calendar,
    load: Load,
    size: u64,
    /// Time in nanoseconds over which the bookings are distributed.
    long: u64,
    rng: Rng,
    next: u64,
    outstanding: Vec<Id>,
}

impl TestCalendar {
    fn new(topology: Topology, load: Load, size: u64) -> Self {
        let part = if load == Load::Fixed { 0.9 } else { 0.7 };
        let long = (size as f64 * MEAN_BYTES * 8.0 / (part * 1e12) * 1e9) as u64;
        let config = Config {
            horizon: Duration::from_hours(24 * 3650),
            ..Config::default()
        };
        Self {
            calendar: Calendar::new(topology, config).unwrap(),
            load,
            size,
            long,
            rng: Rng::new(1),
            next: 0,
            outstanding: Vec::new(),
        }
    }

    fn request(&mut self, route: &dyn Fn(&mut Rng) -> Route, filling: bool) -> Request {
        let from = self.rng.below(self.long);
        Request {
            owner: Owner(0),
            priority: 0,
            route: route(&mut self.rng),
            need: Need::bytes(bytes(&mut self.rng)),
            rate_min: None,
            rate_max: rate(&mut self.rng),
            from: Instant::from_nanos(if self.load == Load::Now && !filling {
                0
            } else {
                from
            }),
            deadline: None,
            shape: if self.load == Load::Fixed {
                Shape::Fixed
            } else {
                Shape::Varying
            },
            detail: Detail::Joined,
        }
    }

    /// Books requests; returns the time in nanoseconds and the number of steps.
    fn book(&mut self, requests: &[Request]) -> (u64, u64) {
        let (begin, mut steps) = (now(), 0);
        for request in requests {
            let grant = self
                .calendar
                .book(Instant::ZERO, Id(self.next), request)
                .unwrap();
            steps += grant.steps().len() as u64;
            self.outstanding.push(Id(self.next));
            self.next += 1;
        }
        (now() - begin, steps)
    }

    fn release(&mut self, many: usize) -> u64 {
        let mut ids = Vec::new();
        for _ in 0..many {
            let nth = self.rng.below(self.outstanding.len() as u64);
            ids.push(self.outstanding.swap_remove(nth as usize));
        }
        let begin = now();
        for id in ids {
            self.calendar.release(Instant::ZERO, id).unwrap();
        }
        now() - begin
    }

    /// Lists the bookings of one link in a thousandth of the booked time. Returns the mean time in
    /// microseconds and the mean number of bookings.
    fn view(&mut self) -> (f64, f64) {
        let (link, _) = self.calendar.topology().links().next().unwrap();
        let (mut nanos, mut found) = (0, 0);
        for _ in 0..VIEWS {
            let from = self.rng.below(self.long);
            let till = Instant::from_nanos(from + self.long / 1000);
            let begin = now();
            found += self
                .calendar
                .allocations(link, Instant::from_nanos(from), till)
                .count();
            nanos += now() - begin;
        }
        let each = f64::from(VIEWS);
        (nanos as f64 / each / 1000.0, found as f64 / each)
    }

    fn run(&mut self, name: &str, route: &dyn Fn(&mut Rng) -> Route, list: &str) {
        for _ in 0..self.size {
            let request = self.request(route, true);
            self.book(&[request]);
        }
        let (mut booking, mut releasing, mut steps, mut bookings) = (0, 0, 0, 0);
        while booking + releasing < NANOS_EACH {
            releasing += self.release(BATCH);
            let requests: Vec<Request> = (0..BATCH).map(|_| self.request(route, false)).collect();
            let (nanos, given) = self.book(&requests);
            (booking, steps, bookings) = (booking + nanos, steps + given, bookings + BATCH as u64);
        }
        let idle = (0..1000).map(|_| now()).collect::<Vec<_>>();
        let idle = idle
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .min()
            .unwrap_or(0);
        let mut singles: Vec<u64> = Vec::new();
        for _ in 0..SINGLES {
            self.release(1);
            let request = self.request(route, false);
            singles.push(self.book(&[request]).0.saturating_sub(idle));
        }
        singles.sort_unstable();
        let (view, found) = self.view();
        let micros = |part: usize| singles[singles.len() * part / 100] as f64 / 1000.0;
        let per_second = |nanos: u64| bookings as f64 * 1e9 / nanos as f64;
        println!(
            "| {name} | {} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} | {view:.1} | {found:.1} | {list} |",
            self.size,
            per_second(booking),
            per_second(booking + releasing),
            micros(50),
            micros(99),
            steps as f64 / bookings as f64,
        );
    }
}

/// Measures the list of change points in the paper, which each request walks from its beginning.
fn list(world: &mut TestCalendar, size: u64) -> String {
    let mut points = vec![(0, 100 * CHANNEL)];
    // filling the list itself would take hours, so its points come from a capacity function
    let mut capacity = lighthaul_calendar::Capacity::new(100 * CHANNEL);
    let mut rng = world.rng.clone();
    let mut wish = move |long| (rng.below(long), bytes(&mut rng), rate(&mut rng).as_bps());
    let mut booked = 0;
    while booked < size {
        let (from, bytes, most) = wish(world.long);
        let mut left = u128::from(bytes) * 8_000_000_000;
        let from = Instant::from_nanos(from);
        let steps: Vec<_> = capacity.steps(from, Instant::NEVER).take(2000).collect();
        for step in steps {
            let rate = step.bps.min(most);
            let nanos = u64::try_from(left.div_ceil(u128::from(rate.max(1)))).unwrap_or(u64::MAX);
            let nanos = nanos.min(step.till.as_nanos() - step.from.as_nanos());
            let till = Instant::from_nanos(step.from.as_nanos() + nanos);
            capacity.take(step.from, till, rate);
            left = left.saturating_sub(u128::from(nanos) * u128::from(rate));
        }
        booked += 1;
    }
    let steps = capacity.steps(Instant::ZERO, Instant::NEVER);
    points.clear();
    points.extend(steps.map(|step| (step.from.as_nanos(), step.bps)));
    let (begin, mut bookings) = (now(), 0);
    while now() - begin < NANOS_EACH {
        let (from, bytes, most) = wish(world.long);
        walk(&mut points, from, u128::from(bytes) * 8_000_000_000, most);
        bookings += 1;
    }
    format!("{:.0}", f64::from(bookings) * 1e9 / (now() - begin) as f64)
}

fn walk(points: &mut Vec<(u64, u64)>, from: u64, mut left: u128, most: u64) {
    let mut nth = points
        .iter()
        .position(|point| point.0 > from)
        .unwrap_or(points.len())
        - 1;
    if points[nth].0 < from {
        points.insert(nth + 1, (from, points[nth].1));
        nth += 1;
    }
    while left > 0 {
        let (at, free) = points[nth];
        let till = points.get(nth + 1).map_or(u64::MAX, |point| point.0);
        let rate = free.min(most);
        let room = u128::from(till - at) * u128::from(rate);
        if left < room {
            let end = at + left.div_ceil(u128::from(rate)) as u64;
            points.insert(nth + 1, (end, free));
        }
        points[nth].1 -= rate;
        left = left.saturating_sub(room);
        nth += 1;
    }
}

fn link(name: String, from: u64, to: u64) -> Link {
    Link {
        name,
        from: from.to_string(),
        to: to.to_string(),
        capacity: Rate::from_mbps(1_000_000),
        channel: Rate::from_mbps(10_000),
        guard: Duration::ZERO,
        cost: 1,
    }
}

fn single() -> Topology {
    Topology::new(
        vec!["0".into(), "1".into()],
        vec![link("link".into(), 0, 1)],
    )
    .unwrap()
}

/// Returns a ring in which each node has links to its neighbors and to the nodes five further, both
/// ways.
fn ring() -> Topology {
    let nodes = (0..RING).map(|nth| nth.to_string()).collect();
    let links = (0..RING).flat_map(|from| {
        [1, 5, RING - 5, RING - 1].map(|by| link(format!("{from}+{by}"), from, (from + by) % RING))
    });
    Topology::new(nodes, links.collect()).unwrap()
}

/// Returns a bounded Pareto number (equation 2 of the paper) by inversion.
fn bytes(rng: &mut Rng) -> u64 {
    let part = rng.below(1 << 53) as f64 / (1_u64 << 53) as f64;
    let cut = 1.0 - (LEAST_BYTES / MOST_BYTES).powf(ALPHA);
    (LEAST_BYTES / (1.0 - part * cut).powf(1.0 / ALPHA)) as u64
}

fn rate(rng: &mut Rng) -> Rate {
    let channels = match rng.below(10) {
        0..3 => 1,
        3..6 => 5,
        _ => 10,
    };
    Rate::from_mbps(channels * CHANNEL / 1_000_000)
}

/// Returns the CPU time of this thread in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

const CHANNEL: u64 = 10_000_000_000;
const ALPHA: f64 = 1.1;
const LEAST_BYTES: f64 = 500e6;
const MOST_BYTES: f64 = 100e9;
const MEAN_BYTES: f64 = 2.269e9;
const RING: u64 = 25;
const BATCH: usize = 100;
const SINGLES: usize = 20_000;
const VIEWS: u32 = 100;
const NANOS_EACH: u64 = 1_000_000_000;
