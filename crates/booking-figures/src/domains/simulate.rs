//! Simulation of paths across domains: set-up times, refused requests, and utilization.

use std::time::Duration;

use lighthaul_base::{Instant, Rng};
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::request::Excludes;
use lighthaul_stargate::{
    CorrelationId, DomainId, Outcome, Protection, Request, Signaling, Timing,
};

use super::network::{Network, Shape, access};
use super::plan::{Blocking, BlockingSeries, DomainsFigure, DomainsPlan, SetUpSeries};
use crate::calendars::arrivals::part;
use crate::calendars::delay::{interval, rounded};
use lighthaul_lab::table::{SIMULATION, Table};

/// Simulates every point of a plan.
///
/// A series of set-ups has one column, in milliseconds. One of blocked requests has three, each followed by half of its
/// 95% confidence interval: refused requests and utilization of the fullest link in percent, and the mean time from a
/// request to the end of its path in seconds.
pub fn simulate(plan: &DomainsPlan) -> Table {
    match &plan.kind {
        DomainsFigure::SetUp(domains, series) => {
            let columns = series.iter().map(|one| format!("{}{SIMULATION}", one.name));
            let row = |count: &u32| {
                let times = series.iter().map(|one| Some(rounded(set_up(*count, one))));
                std::iter::once(Some(f64::from(*count)))
                    .chain(times)
                    .collect()
            };
            Table {
                columns: std::iter::once("domains".into()).chain(columns).collect(),
                rows: domains.iter().map(row).collect(),
            }
        }
        DomainsFigure::Blocking(plan) => {
            let names = plan
                .series
                .iter()
                .flat_map(|one| TAILS.map(|tail| format!("{}{tail}{SIMULATION}", one.name)));
            Table {
                columns: std::iter::once("load".into()).chain(names).collect(),
                rows: plan.loads.iter().map(|load| row(plan, *load)).collect(),
            }
        }
    }
}

/// Returns the time to set up a path across `domains` domains, in milliseconds.
fn set_up(domains: u32, series: &SetUpSeries) -> f64 {
    let rate = lighthaul_base::Rate::from_mbps(1000);
    let shape = Shape {
        domains,
        delay: series.delay,
        capacity: rate.scaled(10, 1),
        channel: rate,
        knows_all: series.signaling == Signaling::Tree,
        timing: Timing {
            query: PATIENCE,
            hold: PATIENCE * 2,
            decide: PATIENCE,
            hold_max: PATIENCE * 4,
            ..Timing::default()
        },
    };
    let demand = Demand {
        bytes: rate.bytes_in(Duration::from_mins(1)),
        rate_max: rate,
        rate_min: rate,
    };
    let till = BEGIN + Duration::from_hours(1);
    let request = request(1, [1, domains], demand, till, series.signaling);
    let outcomes = Network::new(shape).run(vec![(BEGIN, DomainId(1), request)]);
    let committed = outcomes
        .values()
        .filter(|(_, outcome)| matches!(outcome, Outcome::Committed { .. }));
    let times = committed.map(|(at, _)| at.since(BEGIN).as_secs_f64() * 1e3);
    times.sum()
}

/// Simulates one load. Returns its row.
pub fn row(plan: &Blocking, load: f64) -> Vec<Option<f64>> {
    let cells = plan.series.iter().flat_map(|series| {
        let runs = (1..=plan.runs).map(|seed| run(plan, series, load, seed));
        let runs: Vec<[f64; 3]> = runs.collect();
        let means =
            (0..3).map(|nth| interval(&runs.iter().map(|run| run[nth]).collect::<Vec<_>>()));
        let cells = means.flat_map(|(mean, half)| [mean, half]);
        cells
            .map(|number| Some(rounded(number)))
            .collect::<Vec<_>>()
    });
    std::iter::once(Some(load)).chain(cells).collect()
}

/// Returns the refused requests and the utilization of the fullest link in percent, and the mean time of a path in
/// seconds. The first tenth of the requests, which find empty links, is not counted.
fn run(plan: &Blocking, series: &BlockingSeries, load: f64, seed: u64) -> [f64; 3] {
    let shape = Shape {
        domains: plan.domains,
        delay: plan.delay,
        capacity: plan.channel.scaled(plan.channels, 1),
        channel: plan.channel,
        knows_all: false,
        timing: Timing::default(),
    };
    let requests = requests(plan, series, load, seed);
    let counted = requests.len() / 10;
    let (from, till) = (requests[counted].0, requests[requests.len() - 1].0);
    let outcomes = Network::new(shape).run(requests.clone());
    let vector = |id: &CorrelationId| match &outcomes.get(id)?.1 {
        Outcome::Committed { vector, .. } => Some(vector),
        Outcome::Offered(_)
        | Outcome::LegLost { .. }
        | Outcome::Refused(_)
        | Outcome::Failed(_)
        | Outcome::Released
        | Outcome::Ended => None,
    };
    let middle = plan.domains / 2;
    let across = requests
        .iter()
        .filter(|(_, from, request)| from.0 <= middle && middle < request.to.0);
    let carried = across.filter_map(|(_, _, request)| vector(&request.id));
    let carried: u64 = carried.map(|vector| vector.bytes_between(from, till)).sum();
    let most = shape.capacity.bytes_in(till.since(from));
    let late = &requests[counted..];
    let times = late
        .iter()
        .filter_map(|(at, _, request)| Some(vector(&request.id)?.end().since(*at).as_secs_f64()));
    let times: Vec<f64> = times.collect();
    [
        (late.len() - times.len()) as f64 / late.len() as f64 * 100.0,
        carried as f64 / most as f64 * 100.0,
        times.iter().sum::<f64>() / times.len().max(1) as f64,
    ]
}

/// Generates requests between random domains, with exponential gaps and sizes. All series have the same ones.
#[expect(clippy::cast_sign_loss, reason = "times are above zero")]
fn requests(
    plan: &Blocking,
    series: &BlockingSeries,
    load: f64,
    seed: u64,
) -> Vec<(Instant, DomainId, Request)> {
    let mut rng = Rng::new(seed);
    let fastest = plan.channel.scaled(plan.channels_max, 1);
    let mean = plan.mean.as_nanos() as f64;
    // part of the requests that cross the middle link in one direction
    let (all, half) = (f64::from(plan.domains), f64::from(plan.domains / 2));
    let crossing = half * (all - half) / (all * (all - 1.0));
    let gap = mean * crossing * f64::from(plan.channels_max) / f64::from(plan.channels) / load;
    let mut at = BEGIN.as_nanos() as f64;
    let request = |nth: usize| {
        at -= gap * libm::log(1.0 - part(&mut rng));
        let needs =
            Duration::from_nanos((-mean * libm::log(1.0 - part(&mut rng))) as u64).max(LEAST);
        let from = 1 + rng.below(u64::from(plan.domains)) as u32;
        let other = rng.below(u64::from(plan.domains) - 1) as u32;
        let to = (from + other) % plan.domains + 1;
        let demand = Demand {
            bytes: fastest.bytes_in(needs),
            rate_min: plan.channel.scaled(series.channels[0], 1),
            rate_max: plan.channel.scaled(series.channels[1], 1),
        };
        let at = Instant::from_nanos(at as u64);
        let till = at + LEAD + needs * plan.patience;
        let request = request(nth as u128 + 1, [from, to], demand, till, Signaling::Chain);
        (
            at,
            DomainId(from),
            Request {
                from: at,
                ..request
            },
        )
    };
    (0..plan.requests).map(request).collect()
}

fn request(
    id: u128,
    [from, to]: [u32; 2],
    demand: Demand,
    till: Instant,
    signaling: Signaling,
) -> Request {
    Request {
        id: CorrelationId(id),
        ingress: access(DomainId(from)),
        to: DomainId(to),
        egress: access(DomainId(to)),
        demand,
        from: BEGIN,
        till,
        excludes: Excludes::default(),
        protection: Protection::None,
        signaling,
    }
}

/// Suffixes of the columns of a series of blocked requests, before the suffix for simulations.
pub const TAILS: [&str; 6] = [
    "_blocked",
    "_blocked_half",
    "_used",
    "_used_half",
    "_time",
    "_time_half",
];
/// Start of the simulated time.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000_000);
/// Time for queries that the longest chain needs.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time from a request to the earliest start of its path; both are counted from the decision.
const LEAD: Duration = Duration::from_secs(10);
/// Shortest request.
const LEAST: Duration = Duration::from_secs(1);
