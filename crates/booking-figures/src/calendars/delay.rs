//! Normalized delays (equation 1 of the VBLS paper) with confidence intervals.
//!
//! [`simulate`] returns the table of a [`BookingPlan`], and [`row`] that of one load. A point is
//! the mean of several runs. All series of a run carry the same files, so the excess over the first
//! series varies less than the delays. The first tenth and the last twentieth of the files are not
//! counted. Delays are in milliseconds, and an offered load of 1 fills the links. The end times
//! come from `discipline`.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_calendar::path::shortest;

use super::arrivals::{CLASSES, File, files};
use super::discipline::ends;
use super::network::{LINK_BPS, topology};
use super::plan::BookingPlan;
use lighthaul_lab::table::{SIMULATION, Table};

/// Simulates every point of a plan.
///
/// Each series and class has four columns: the delay in milliseconds, half of its 95% confidence
/// interval, the excess over the first series in percent, and half of its interval. The excess
/// compares runs with the same files.
pub fn simulate(plan: &BookingPlan) -> Table {
    let classes = |name: &str| CLASSES.map(|class| format!("{name}_r{class}"));
    let names = plan.series.iter().flat_map(|series| classes(&series.name));
    let columns = names.flat_map(|name| TAILS.map(|tail| format!("{name}{tail}{SIMULATION}")));
    let rows = plan.loads.iter().map(|load| row(plan, *load));
    Table {
        columns: std::iter::once("load".into()).chain(columns).collect(),
        rows: rows.collect(),
    }
}

/// Simulates one load. Returns its row.
pub fn row(plan: &BookingPlan, load: f64) -> Vec<Option<f64>> {
    let bps = load * capacity(plan);
    // Indexed by run, series and class.
    let runs: Vec<Vec<[f64; 3]>> = (1..=plan.runs)
        .map(|seed| {
            let files = files(seed, plan.files, bps, plan.resent_ppm_max);
            let delays = plan
                .series
                .iter()
                .map(|series| delays(&files, &ends(series, &plan.links, &files)));
            delays.collect()
        })
        .collect();
    let points =
        (0..plan.series.len()).flat_map(|nth| (0..CLASSES.len()).map(move |class| (nth, class)));
    let cells = points.flat_map(|(nth, class)| {
        let delays: Vec<f64> = runs.iter().map(|run| run[nth][class]).collect();
        let firsts = runs.iter().map(|run| run[0][class]);
        let above: Vec<f64> = delays
            .iter()
            .zip(firsts)
            .map(|(delay, first)| (delay / first - 1.0) * 100.0)
            .collect();
        let (delay, half) = interval(&delays);
        let (above, above_half) = interval(&above);
        [delay, half, above, above_half].map(|number| Some(rounded(number)))
    });
    std::iter::once(Some(load)).chain(cells).collect()
}

/// Returns the offered load that counts as 1, in bits per second. For a network, it is the load
/// that fills all links when each file takes the shortest path.
fn capacity(plan: &BookingPlan) -> f64 {
    if plan.links.is_empty() {
        return LINK_BPS as f64;
    }
    let topology = topology(&plan.links, Duration::ZERO);
    let nodes: Vec<_> = topology.nodes().map(|(node, _)| node).collect();
    let pairs = nodes
        .iter()
        .flat_map(|from| nodes.iter().map(move |to| (*from, *to)));
    let hops: usize = pairs
        .flat_map(|(from, to)| shortest(&topology, from, to, 1))
        .map(|path| path.links().len())
        .sum();
    let pairs = nodes.len() * (nodes.len() - 1);
    LINK_BPS as f64 * topology.links().count() as f64 * pairs as f64 / hops as f64
}

/// Returns the mean delay of each class in milliseconds, weighted by the files' bytes.
///
/// Excludes the first tenth of the files, which find an empty link, and the last twentieth, which
/// no files follow.
fn delays(files: &[File], ends: &[Instant]) -> [f64; 3] {
    let counted = files.len() / 10..files.len() - files.len() / 20;
    let mut sums = [(0.0, 0.0); 3];
    for (file, end) in files[counted.clone()].iter().zip(&ends[counted]) {
        let (bytes, sum) = (file.bytes as f64, &mut sums[file.class]);
        sum.0 += bytes * end.since(file.at).as_secs_f64() * 1000.0;
        sum.1 += bytes;
    }
    sums.map(|(delays, bytes)| delays / bytes)
}

/// Returns the mean of numbers, and half of its 95% confidence interval by Student's distribution.
pub(crate) fn interval(numbers: &[f64]) -> (f64, f64) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers
        .iter()
        .map(|number| (number - mean) * (number - mean))
        .sum();
    let quantile = QUANTILES[(numbers.len() - 2).min(QUANTILES.len() - 1)];
    (mean, quantile * libm::sqrt(squares / (count - 1.0) / count))
}

/// Rounds to the precision of the table's file, so that a redrawn figure equals the accepted one.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Suffixes of a series' columns, before the suffix for simulations.
pub const TAILS: [&str; 4] = ["", "_half", "_above", "_above_half"];

/// 0.975 quantiles of Student's distribution, from one degree of freedom on.
const QUANTILES: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        loads = [0.9]
        runs = 3
        files = 2000
        resent_ppm_max = 40000
        [[series]]
        name = "vbls"
        label = ""
        discipline = "vbls"
        [[series]]
        name = "packed"
        label = ""
        discipline = "vbls"
        margin_ppm = 100000
        release = "repack"
        [[series]]
        name = "early"
        label = ""
        discipline = "vbls"
        margin_ppm = 100000
        release = "early"
        [[series]]
        name = "held"
        label = ""
        discipline = "vbls"
        margin_ppm = 100000
        [[series]]
        name = "fifo"
        label = ""
        discipline = "ps-fifo"
        [[series]]
        name = "fbls"
        label = ""
        discipline = "fbls-book"
    "#;

    /// A small version of the figures' results.
    #[test]
    fn delays_are_ordered_as_in_the_paper() {
        let table = simulate(&BookingPlan::parse("p", PLAN).unwrap());
        let number = |column: &str| table.number(0.9, &format!("{column}{SIMULATION}")).unwrap();
        for class in CLASSES {
            let of = |name: &str| number(&format!("{name}_r{class}"));
            assert!(of("fifo") <= of("vbls") && of("vbls") < of("fifo") * 1.02);
            assert!(of("vbls") < of("early") && of("early") < of("held"));
            // All files end at the same nanosecond, so even the interval has no width.
            assert!(number(&format!("packed_r{class}_above")).abs() < 1e-12);
            assert!(number(&format!("packed_r{class}_above_half")).abs() < 1e-12);
        }
        assert!(number("fbls_r10_above") > number("fbls_r10_above_half"));
    }

    #[test]
    fn interval_uses_students_distribution() {
        let (mean, half) = interval(&[1.0, 2.0, 3.0, 4.0]);
        assert!((mean - 2.5).abs() < 1e-12);
        assert!((half - 3.182 * 1.290_994 / 2.0).abs() < 1e-5, "{half}");
    }

    #[test]
    fn network_capacity_accounts_for_path_lengths() {
        let links = "links = [[\"a\", \"b\"], [\"b\", \"c\"]]\nloads";
        let plan = BookingPlan::parse("p", &PLAN.replacen("loads", links, 1)).unwrap();
        // Four links, six pairs, eight hops.
        assert!((capacity(&plan) / (LINK_BPS as f64 * 3.0) - 1.0).abs() < 1e-12);
    }
}
