//! Simulation of a plan in virtual time: every point by the protocol machines, and the model's prediction.

use lighthaul_base::{Instant, Rate};
use lighthaul_proto::rbudp::model::{self, Path};
use lighthaul_proto::rbudp::wire::HEAD_LEN;
use lighthaul_proto::rbudp::{Config, FeedbackConfig, Framing, Receiver, Sender};
use lighthaul_sim::{HostConfig, LinkConfig, PathConfig, Predictions, Simulation};

use crate::plan::{Case, Plan, Series};
use crate::table::{EMULATION, EXPECTED, MODEL, SIMULATION, Table};

/// Simulates every point of a plan. The columns of the emulation stay empty.
pub fn simulate(plan: &Plan) -> Table {
    let columns = plan.series.iter().flat_map(columns);
    let rows = plan.values.iter().map(|value| {
        // The table counts in Mb/s or MB, the plan in b/s or bytes.
        let key = Some(*value as f64 / 1e6);
        let cells = plan
            .series
            .iter()
            .flat_map(|series| cells(plan, series, *value));
        std::iter::once(key).chain(cells).collect()
    });
    Table {
        columns: std::iter::once(plan.column().to_string())
            .chain(columns)
            .collect(),
        rows: rows.collect(),
    }
}

/// Returns the mean goodput of a case in Mb/s, over `runs` seeds.
pub fn simulate_case(case: &Case, runs: u64) -> f64 {
    let seconds: f64 = (1..=runs).map(|seed| seconds(case, seed)).sum();
    (case.object_len * runs) as f64 * 8.0 / seconds / 1e6
}

/// Returns the standard deviation of the transfer time in seconds, over `runs` seeds, at least two.
pub fn spread(case: &Case, runs: u64) -> f64 {
    let times: Vec<f64> = (1..=runs).map(|seed| seconds(case, seed)).collect();
    let mean = times.iter().sum::<f64>() / runs as f64;
    let squares = times.iter().map(|time| (time - mean).powi(2));
    (squares.sum::<f64>() / (runs - 1) as f64).sqrt()
}

/// Returns the machines' configuration for a case.
pub fn config(case: &Case) -> Config {
    Config {
        framing: Framing {
            object_len: case.object_len,
            packet_len: case.packet_len,
            overhead_len: case.overhead_len,
        },
        rate: on_wire(case, case.rate),
        burst: None,
        stream: 0,
        settle: case.settle,
        repeat: core::time::Duration::ZERO,
        feedback: case.feedback.then_some(FeedbackConfig {
            rtt: case.rtt,
            pause_max: PAUSE_MAX,
        }),
    }
}

/// Returns the rate on the wire that carries the object's bits at `rate`.
pub fn on_wire(case: &Case, rate: Rate) -> Rate {
    let wire_len = case.packet_len + case.overhead_len + HEAD_LEN as u32;
    rate.scaled(wire_len, case.packet_len)
}

/// Returns the names of a series' four columns.
fn columns(series: &Series) -> impl Iterator<Item = String> {
    [MODEL, EXPECTED, SIMULATION, EMULATION]
        .map(|tail| format!("{}{tail}", series.name))
        .into_iter()
}

fn cells(plan: &Plan, series: &Series, value: u64) -> [Option<f64>; 4] {
    let case = plan.case(series, value);
    if let Some(seeds) = plan.spread {
        return [None, None, Some(spread(&case, seeds)), None];
    }
    let path = Path {
        rate: case.rate.as_bps() as f64,
        rtt: case.rtt,
        packet_len: f64::from(case.packet_len),
        loss: case.loss_ppb as f64 / 1e9,
    };
    let total = case.object_len as f64;
    let model = series.model.then(|| model::goodput(total, &path) / 1e6);
    let expected = (series.model && case.loss_ppb > 0)
        .then(|| total * 8.0 / model::time_expected(total, &path) / 1e6);
    let simulation = simulate_case(&case, plan.runs(case.object_len));
    [model, expected, Some(simulation), None]
}

/// Simulates one transfer. Returns its duration in seconds.
pub fn seconds(case: &Case, seed: u64) -> f64 {
    run(case, seed).0
}

/// Simulates one transfer. Returns its duration in seconds, and the predictions of its receiver's monitor.
fn run(case: &Case, seed: u64) -> (f64, Predictions) {
    let config = config(case);
    let delay = case.rtt / 2;
    let there = LinkConfig {
        rate: Some(case.link),
        delay,
        queue_bytes_max: case.queue_bytes_max,
        loss_ppb: case.loss_ppb,
        ..LinkConfig::default()
    };
    let world = PathConfig {
        there,
        stream_delay: delay,
        stream_rate: Some(case.link),
        overhead_len: case.overhead_len,
        host: HostConfig {
            absorb: case.absorb.map(|rate| on_wire(case, rate)),
            socket_bytes_max: case.socket_bytes_max,
            competitors: case.competitors,
            nice: case.nice,
            arrival: case.arrival,
            ..HostConfig::default()
        },
        ..PathConfig::default()
    };
    let sender = Sender::new(Instant::ZERO, config, seed);
    let receiver = Receiver::new(Instant::ZERO, config, seed);
    let mut world = Simulation::new(sender, receiver, &world, seed);
    let end = world.run(Instant::from_nanos(u64::MAX / 2), |_, _| ());
    assert_eq!(world.left().missing(), 0, "a simulated transfer completes");
    (end.as_secs_f64(), world.host().predictions())
}

/// Longest pause that a receiver may request.
const PAUSE_MAX: core::time::Duration = core::time::Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    /// Goodput in Mb/s and predictions of a transfer beside a task of this nice value.
    fn beside(nice: i8, feedback: bool) -> (f64, Predictions) {
        let text = format!(
            r#"
            title = "t"
            vary = "rate"
            values = ["400Mb/s"]
            path = {{ rate = "10Gb/s", rtt = "100us", queue = "1MiB" }}
            packet = {{ len = 1464, overhead = 28, settle = "2ms" }}
            [[series]]
            name = "a"
            label = "A"
            object = "20MB"
            absorb = "300Mb/s"
            socket = "256KiB"
            competitors = 1
            nice = {nice}
            feedback = {feedback}
            "#
        );
        let plan = Plan::parse("p", &text).unwrap();
        let case = plan.case(&plan.series[0], plan.values[0]);
        let (seconds, predictions) = run(&case, 1);
        (case.object_len as f64 * 8.0 / 1e6 / seconds, predictions)
    }

    /// Figure 3 of the RBUDP+ paper foresees tasks up to its priority and delta, figure 4 any task.
    #[test]
    fn transfers_are_paused_by_figures_3_and_4() {
        let (_, urgent) = beside(-9, true);
        assert!(urgent.stays_active > 0, "{urgent:?}");
        let (_, equal) = beside(0, true);
        assert_eq!(equal.stays_active, 0, "{equal:?}");
        assert!(equal.expires > 0, "{equal:?}");
    }
}
