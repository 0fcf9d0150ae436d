//! Results of runs, and the median of several.
//!
//! A cell is one path, loss and data set. A `Row` is one run of a program in a cell, and
//! `summarize` groups rows into one `Summary` for each program and cell. Runs are ordered by
//! goodput. Failed runs count as the slowest, so a program that fails in half of its runs or more
//! has no median. Of an even number of runs, the slower one in the middle counts.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::case::{Data, Loss, Path};

/// Run of a program in a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) path: Path,
    pub(crate) loss: Loss,
    pub(crate) data: Data,
    pub(crate) tool: String,
    pub(crate) result: Result<Outcome, String>,
}

/// Result of a run that transferred data.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Duration of the command in seconds, or of the measurement that the program reports.
    pub(crate) seconds: f64,
    /// Bytes that arrived.
    pub(crate) bytes: u64,
    /// CPU time of both sides, in seconds.
    pub(crate) cpu_s: f64,
    /// Peak memory of the largest process on each side: sender, receiver.
    pub(crate) rss_bytes: [u64; 2],
    /// True if the run was cut off at the time limit.
    pub(crate) is_cut: bool,
    /// Lighthaul's own report.
    pub(crate) report: Option<LighthaulReport>,
}

/// Lighthaul's own report of a copy.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LighthaulReport {
    /// Seconds without start-up.
    pub(crate) moving_s: f64,
    /// Goodput without start-up.
    pub(crate) goodput_bps: f64,
    /// Goodput that equation 5 predicts for the used rate; none where the equation does not apply.
    pub(crate) predicted_bps: Option<f64>,
    /// Retransmitted datagrams, as a fraction of the datagrams sent once.
    pub(crate) resent: f64,
    /// Number of datagrams, without retransmissions.
    pub(crate) sent_once: f64,
}

impl Outcome {
    /// Returns the goodput, in bits per second.
    pub(crate) fn bps(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.seconds.max(1e-9)
    }

    /// Returns the CPU seconds of both sides per 10^9 bytes. `None` without bytes.
    pub(crate) fn cpu_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.cpu_s / (self.bytes as f64 / 1e9))
    }
}

/// All runs of a program in a cell.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) path: Path,
    pub(crate) loss: Loss,
    pub(crate) data: Data,
    pub(crate) tool: String,
    /// Run with the median goodput; failed runs count as the slowest. If it is a failed run, the reason.
    pub(crate) median: Result<Outcome, String>,
    /// Successful runs, slowest first.
    pub(crate) good: Vec<Outcome>,
    pub(crate) runs: usize,
    pub(crate) failed: usize,
    /// Peak memory of all runs, per side.
    pub(crate) rss_bytes: [u64; 2],
}

/// Groups the runs by program and cell, in the order of their first run.
pub(crate) fn summarize(rows: &[Row]) -> Vec<Summary> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    let key = |row: &Row| (row.path, row.loss, row.data, row.tool.clone());
    for row in rows {
        match groups.iter_mut().find(|group| key(group[0]) == key(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.iter().map(|group| summary(group)).collect()
}

fn summary(rows: &[&Row]) -> Summary {
    let mut good: Vec<&Outcome> = rows
        .iter()
        .filter_map(|row| row.result.as_ref().ok())
        .collect();
    // Empty files have no goodput: compare their times.
    let pace = |one: &Outcome| (one.bps(), -one.seconds);
    good.sort_by(|one, other| {
        pace(one)
            .partial_cmp(&pace(other))
            .unwrap_or(Ordering::Equal)
    });
    let why = || {
        rows.iter()
            .find_map(|row| row.result.clone().err())
            .unwrap_or_default()
    };
    let most = |side: usize| {
        good.iter()
            .map(|one| one.rss_bytes[side])
            .max()
            .unwrap_or(0)
    };
    let row = rows[0];
    let failed = rows.len() - good.len();
    // Failed runs count as slower than all others.
    let middle = (rows.len() - 1) / 2;
    let median = middle.checked_sub(failed).and_then(|nth| good.get(nth));
    Summary {
        path: row.path,
        loss: row.loss,
        data: row.data,
        tool: row.tool.clone(),
        median: median.map(|&one| one.clone()).ok_or_else(why),
        good: good.iter().map(|&one| one.clone()).collect(),
        runs: rows.len(),
        failed,
        rss_bytes: [most(0), most(1)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tool: &str, result: Result<u64, &str>) -> Row {
        let outcome = |bytes| Outcome {
            seconds: 1.0,
            bytes,
            ..Outcome::default()
        };
        Row {
            path: Path::Near,
            loss: Loss::None,
            data: Data::File,
            tool: tool.to_owned(),
            result: result.map(outcome).map_err(str::to_owned),
        }
    }

    #[test]
    fn failed_runs_are_the_slowest_in_the_median() {
        let rows = [
            row("x", Ok(5)),
            row("y", Err("why")),
            row("x", Ok(1)),
            row("x", Err("broken")),
            row("x", Ok(9)),
        ];
        let all = summarize(&rows);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].median.as_ref().unwrap().bytes, 1);
        assert_eq!((all[0].runs, all[0].failed), (4, 1));
        assert_eq!(all[1].median.as_ref().unwrap_err(), "why");
        let mostly = [
            row("x", Err("broken")),
            row("x", Ok(9)),
            row("x", Err("again")),
        ];
        assert_eq!(summarize(&mostly)[0].median.as_ref().unwrap_err(), "broken");
    }
}
