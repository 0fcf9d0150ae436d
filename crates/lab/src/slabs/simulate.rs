//! Simulation of figures of slabs, in virtual time.
//!
//! [`simulate`] computes one row of the table for each value of a plan: sizes, provisioning,
//! clusters or load. The machines are those of real gateways; only channel and programs are
//! simulated. Seeds are constants, so a figure is the same on every host.

use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng, Trc};
use lighthaul_sim::{FlowEvent, LinkConfig, Network};
use lighthaul_workload::station::{Program, Station};

use super::gateway_setup::{Arrival, ArrivalLog, GatewaySetup};
use super::on_demand_gateway::OnDemandGateway;
use super::plan::{Experiment, SlabPlan};
use super::turns::turns;
use crate::table::Table;

/// Simulates every point of a plan.
pub fn simulate(plan: &SlabPlan) -> Table {
    let row = |value: &u64| {
        let point = match plan.kind {
            Experiment::Size => plan
                .series
                .iter()
                .flat_map(|buffer| size(plan, *value, *buffer))
                .collect(),
            Experiment::Provisioning => {
                let of = |latency: &u64| provisioning(plan, *value, Duration::from_nanos(*latency));
                plan.series.iter().flat_map(of).collect()
            }
            Experiment::Cluster => cluster(plan, *value),
            Experiment::Load => load(plan, *value),
        };
        let value = *value as f64 / scale(plan.kind);
        std::iter::once(Some(value)).chain(point).collect()
    };
    let columns = columns(plan);
    Table {
        columns,
        rows: plan.values.iter().map(row).collect(),
    }
}

/// Returns the divisor from the plan's values to the table's.
fn scale(kind: Experiment) -> f64 {
    match kind {
        Experiment::Size | Experiment::Provisioning => f64::from(1 << 20),
        Experiment::Cluster => 1.0,
        Experiment::Load => 1000.0,
    }
}

/// Returns the names of the columns.
pub fn columns(plan: &SlabPlan) -> Vec<String> {
    let (first, tails): (&str, &[&str]) = match plan.kind {
        Experiment::Size => ("slab_mib", &SIZE),
        Experiment::Provisioning => ("buffer_mib", &PROVISIONING),
        Experiment::Cluster => ("gateways", &CLUSTER),
        Experiment::Load => ("offered_gbps", &LOAD),
    };
    let mut columns = vec![first.to_owned()];
    if plan.series.is_empty() {
        columns.extend(tails.iter().map(ToString::to_string));
    }
    for series in &plan.series {
        let name = curve_name(plan.kind, *series);
        columns.extend(tails.iter().map(|tail| format!("{name}_{tail}")));
    }
    columns
}

/// Returns the prefix of a curve's columns.
pub fn curve_name(kind: Experiment, series: u64) -> String {
    match kind {
        Experiment::Provisioning => format!("{}ms", series / 1_000_000),
        Experiment::Size | Experiment::Cluster | Experiment::Load => format!("{}mib", series >> 20),
    }
}

/// Simulates one point of [`Experiment::Size`]: utilization with greedy programs, and delays of bulk data
/// and keystrokes at 80% load.
fn size(plan: &SlabPlan, slab: u64, buffer: u64) -> Vec<Option<f64>> {
    let setup = GatewaySetup::new(plan, slab, buffer);
    let till = Instant::ZERO + plan.time;
    let full = run(&setup, bulk(plan, Rate::from_mbps(FAST_MBPS)), till);
    let from = Instant::ZERO + plan.time / 4;
    let used = full.throughput(from).map(Rate::as_mbps_f64);
    let used = used.map(|mbps| 100.0 * mbps / setup.payload_rate().as_mbps_f64());
    let each = setup.payload_rate().scaled(4, 5 * u32::from(BULK));
    let mut programs = bulk(plan, each);
    programs.extend(keystrokes(plan));
    let part = run(&setup, programs, till);
    let age = part.age_ms(1..=BULK, from, 99);
    vec![used, age, part.age_ms(BULK + 1..=u8::MAX, from, 99)]
}

/// Simulates one point of [`Experiment::Provisioning`]: the utilization of the channel's open time, and
/// the age of last bytes.
///
/// The programs send for a second each, one after the other, at two fifths of the channel's rate.
fn provisioning(plan: &SlabPlan, buffer: u64, latency: Duration) -> Vec<Option<f64>> {
    let setup = GatewaySetup::new(plan, plan.slab, buffer);
    let rate = setup.payload_rate().scaled(2, 5);
    let talks = u8::try_from(plan.time.as_secs() / EVERY.as_secs())
        .unwrap_or(u8::MAX)
        .max(1);
    let program = |nth: u8| {
        let start = Instant::ZERO + EVERY * u32::from(nth);
        Program::new(nth + 1, start, rate.bytes_in(Duration::from_secs(1)), rate).steady()
    };
    let programs: Vec<Program> = (0..talks).map(program).collect();
    let mut log = ArrivalLog::new(&programs);
    // Programs send one at a time, and each can use the whole buffer.
    let station = setup.ingress(programs, 1, Trc::steady(setup.rate));
    let left = OnDemandGateway::new(station, setup.rate, latency);
    let mut network = Network::new([setup.channel()], SEED);
    network.add(left, setup.egress(), &setup.way());
    let till = Instant::ZERO + plan.time;
    network.run(till, |at, _, heard| {
        let (FlowEvent::Left(told) | FlowEvent::Right(told)) = heard;
        log.hear(at, &told);
    });
    let open = network.flows()[0].left().open_until(till);
    let all = log.bytes(u8::MAX, Instant::ZERO, till);
    let share = setup.payload_rate().time_for(all).as_secs_f64() / open.as_secs_f64();
    vec![Some(share * 100.0), log.last_ms()]
}

/// Simulates one point of [`Experiment::Cluster`]: utilization and loss of a channel that gateways share.
/// They send in turns, all at once, or all at once in step. The first two are also simulated with
/// half of the gateways busy.
fn cluster(plan: &SlabPlan, count: u64) -> Vec<Option<f64>> {
    let count = u8::try_from(count).unwrap_or(1);
    // One percent stays free, so that a queue can drain.
    let rate = plan.rate.scaled(99, 100);
    let part = rate.scaled(1, count.into());
    let by_turns = |busy: u8| mean(plan, &turns(count, busy, rate, plan.time), SPREAD);
    let parts = |busy: u8, spread| mean(plan, &vec![Trc::steady(part); busy.into()], spread);
    let half = count.div_ceil(2);
    let all = [by_turns(count), parts(count, SPREAD), parts(count, 0)];
    let few = [by_turns(half), parts(half, SPREAD)];
    all.into_iter().chain(few).flatten().collect()
}

/// Returns the mean of [`share`] over several seeds. Gateways start within `spread_nanos` of each
/// other.
fn mean(plan: &SlabPlan, vectors: &[Trc], spread_nanos: u64) -> [Option<f64>; 3] {
    let mut sums = [0.0; 3];
    for seed in 0..SEEDS {
        let numbers = share(plan, vectors, (SEED + seed, spread_nanos));
        sums.iter_mut()
            .zip(numbers)
            .for_each(|(sum, number)| *sum += number);
    }
    sums.map(|sum| Some(sum / SEEDS as f64))
}

/// Simulates gateways that follow `vectors`. Returns the utilization and the loss of the channel, and the smallest
/// share relative to the largest, all in percent.
fn share(plan: &SlabPlan, vectors: &[Trc], (seed, spread_nanos): (u64, u64)) -> [f64; 3] {
    let mut setup = GatewaySetup::new(plan, plan.slab, plan.slab * 32);
    // Trains that fit in the queue.
    setup.config.burst = u32::try_from(plan.queue_bytes_max / 2).ok();
    let mut network = Network::new([setup.channel()], seed);
    let (mut logs, mut rng) = (Vec::new(), Rng::new(seed));
    for trc in vectors {
        let begin = Duration::from_nanos(200_000_000 + rng.next_u64() % (spread_nanos + 1));
        let mut programs = bulk(plan, Rate::from_mbps(FAST_MBPS));
        for program in &mut programs {
            program.start = Instant::ZERO + begin;
        }
        logs.push(ArrivalLog::new(&programs));
        let left = setup.ingress(programs, BULK.into(), trc.clone());
        network.add(left, setup.egress(), &setup.way());
    }
    let till = Instant::ZERO + plan.time;
    network.run(till, |at, nth, heard| {
        if let FlowEvent::Right(told) = heard {
            logs[nth].hear(at, &told);
        }
    });
    let from = Instant::ZERO + plan.time / 4;
    let carried = logs.iter().map(|log| log.bytes(BULK, from, till));
    let carried: Vec<u64> = carried.collect();
    let all = Rate::of(carried.iter().sum(), till.since(from));
    let used = all.as_mbps_f64() / setup.payload_rate().as_mbps_f64();
    let counters = network.links()[0].counters();
    let lost = counters.dropped_queue.packets as f64 / counters.offered.packets.max(1) as f64;
    let (least, most) = (carried.iter().min(), carried.iter().max());
    let even = least.zip(most);
    let even = even.map_or(0.0, |(least, most)| 100.0 * *least as f64 / *most as f64);
    [used * 100.0, lost * 100.0, even]
}

/// Simulates one point of [`Experiment::Load`]: the times to form and to send a slab, and the interval
/// between slabs, at an offered load in Mb/s.
fn load(plan: &SlabPlan, mbps: u64) -> Vec<Option<f64>> {
    let mut setup = GatewaySetup::new(plan, plan.slab, plan.slab * 8);
    // No slab is sent before it is full.
    setup.config.age = plan.time;
    let offered = Rate::from_mbps(mbps);
    let programs = vec![Program::new(1, Instant::ZERO, u64::MAX >> 8, offered)];
    let till = Instant::ZERO + plan.time;
    let log = run(&setup, programs, till);
    let mut slabs = log.joined_arrivals(setup.rate.time_for(plan.slab) / 2);
    // The first slabs are small, because they are sent at once.
    slabs.retain(|arrival| arrival.len > plan.slab / 2);
    let mean = |of: &dyn Fn(&Arrival) -> Duration| {
        let all: Duration = slabs.iter().map(of).sum();
        let count = u32::try_from(slabs.len()).unwrap_or(0);
        (count > 0).then(|| (all / count.max(1)).as_secs_f64() * 1e3)
    };
    let form = mean(&|arrival: &Arrival| arrival.till.since(arrival.since));
    let cross =
        mean(&|arrival: &Arrival| arrival.at.since(arrival.till).saturating_sub(setup.delay()));
    let (first, last) = (slabs.first(), slabs.last());
    let between = first.zip(last).filter(|_| slabs.len() > 1);
    let interval = between.map(|(first, last)| {
        last.at.since(first.at).as_secs_f64() * 1e3 / (slabs.len() - 1) as f64
    });
    let later: u64 = slabs.iter().skip(1).map(|arrival| arrival.len).sum();
    let throughput = between
        .map(|(first, last)| Rate::of(later, last.at.since(first.at)).as_mbps_f64() / 1000.0);
    let paper = form.map(|form| form + PAPER_TRANSFER_MS);
    vec![form, cross, interval, throughput, paper]
}

/// Simulates one gateway and its peer until `till`.
fn run(setup: &GatewaySetup, programs: Vec<Program>, till: Instant) -> ArrivalLog {
    let mut log = ArrivalLog::new(&programs);
    let count = programs
        .iter()
        .filter(|program| program.number <= BULK)
        .count();
    let left = setup.ingress(programs, count as u64, Trc::steady(setup.rate));
    let channel: LinkConfig = setup.channel();
    let mut network: Network<Station, Station> = Network::new([channel], SEED);
    network.add(left, setup.egress(), &setup.way());
    network.run(till, |at, _, heard| {
        if let FlowEvent::Right(told) = heard {
            log.hear(at, &told);
        }
    });
    log
}

/// Creates bulk programs that each send at `rate` without end.
fn bulk(plan: &SlabPlan, rate: Rate) -> Vec<Program> {
    let bytes = rate.bytes_in(plan.time * 2);
    (1..=BULK)
        .map(|number| Program::new(number, Instant::ZERO, bytes, rate))
        .collect()
}

/// Creates sessions of 20 bytes, one every 37 ms.
fn keystrokes(plan: &SlabPlan) -> Vec<Program> {
    let every = Duration::from_millis(37);
    let first = plan.time / 4;
    let room = plan.time / 2;
    let count = u8::try_from(room.as_nanos() / every.as_nanos()).unwrap_or(u8::MAX);
    let program = |nth: u8| {
        let start = Instant::ZERO + first + every * u32::from(nth);
        Program::new(BULK + 1 + nth, start, 20, Rate::from_mbps(FAST_MBPS))
    };
    (0..count.min(u8::MAX - BULK - 1)).map(program).collect()
}

/// Columns per buffer: utilization, and ages of bulk data and keystrokes.
pub const SIZE: [&str; 3] = ["used_percent", "bulk_p99_ms", "key_p99_ms"];
/// Columns per latency: utilization of the open channel, and age of a burst's last byte at arrival.
pub const PROVISIONING: [&str; 2] = ["used_percent", "last_ms"];
/// Columns of a cluster: utilization and loss of the channel, and the smallest share relative to the largest.
///
/// Gateways send in turns (`token`), or each at its part of the rate; then they start independently (`parts`) or at the
/// same time (`step`). In columns with `half`, only half of the gateways have data.
pub const CLUSTER: [&str; 15] = [
    "token_used_percent",
    "token_lost_percent",
    "token_least_percent",
    "parts_used_percent",
    "parts_lost_percent",
    "parts_least_percent",
    "step_used_percent",
    "step_lost_percent",
    "step_least_percent",
    "token_half_used_percent",
    "token_half_lost_percent",
    "token_half_least_percent",
    "parts_half_used_percent",
    "parts_half_lost_percent",
    "parts_half_least_percent",
];
/// Columns of slabs: time to form a slab, time to send a slab, interval of slabs, throughput, and the paper's interval.
pub const LOAD: [&str; 5] = [
    "formation_ms",
    "transfer_ms",
    "interval_ms",
    "throughput_gbps",
    "interval_paper_ms",
];

/// Time from the start of one program to the next.
const EVERY: Duration = Duration::from_secs(4);
/// Number of bulk programs.
const BULK: u8 = 4;
/// Rate above that of any channel, in Mb/s.
const FAST_MBPS: u64 = 40_000;
/// Time to send a slab of 128 MB in the paper (section V), in milliseconds.
const PAPER_TRANSFER_MS: f64 = 109.0;
const SEED: u64 = 20_261_121;
/// Time in nanoseconds within which independent gateways start.
const SPREAD: u64 = 10_000_000;
/// Number of seeds that are averaged for a cluster.
const SEEDS: u64 = 5;
