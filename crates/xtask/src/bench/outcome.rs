//! What a run gave, and the median of several.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::case::{Data, Loss, Path};

/// One run of one program in one cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) path: Path,
    pub(crate) loss: Loss,
    pub(crate) data: Data,
    pub(crate) tool: String,
    pub(crate) result: Result<Outcome, String>,
}

/// What a run that moved something gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// From the start of the command to its end, or what the program says of a timed measurement.
    pub(crate) seconds: f64,
    /// What arrived.
    pub(crate) bytes: u64,
    /// CPU of both sides.
    pub(crate) cpu_s: f64,
    /// The largest process of each side: sender, receiver.
    pub(crate) rss_bytes: [u64; 2],
    /// It was cut off at the limit.
    pub(crate) is_cut: bool,
    /// What Lighthaul says of itself.
    pub(crate) own: Option<Own>,
}

/// What Lighthaul says of a copy.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Own {
    /// Seconds without start-up.
    pub(crate) moving_s: f64,
    /// Goodput without start-up.
    pub(crate) goodput_bps: f64,
    /// What equation 5 predicts at the rate that was used, where it applies.
    pub(crate) predicted_bps: Option<f64>,
    /// Datagrams that were sent again, as a part of those sent once.
    pub(crate) resent: f64,
}

impl Outcome {
    /// Useful bits a second.
    pub(crate) fn bps(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.seconds.max(1e-9)
    }

    /// CPU seconds of both sides for each 10^9 bytes, of which there must be some.
    pub(crate) fn cpu_per_gb(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.cpu_s / (self.bytes as f64 / 1e9))
    }
}

/// All runs of one program in one cell.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) path: Path,
    pub(crate) loss: Loss,
    pub(crate) data: Data,
    pub(crate) tool: String,
    /// The run of median goodput, of which a failed run has none; why it failed if it is one.
    pub(crate) median: Result<Outcome, String>,
    /// All runs that worked, slowest first.
    pub(crate) good: Vec<Outcome>,
    pub(crate) runs: usize,
    pub(crate) failed: usize,
    /// The most memory that any run took.
    pub(crate) rss_bytes: [u64; 2],
}

/// Brings the runs of each program in each cell together, in the order of their first run.
pub(crate) fn summarise(rows: &[Row]) -> Vec<Summary> {
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
    // of files of nothing, only the time says who was slow
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
    // failed runs are slower than all others
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
    fn failed_runs_are_the_slowest_of_the_median() {
        let rows = [
            row("x", Ok(5)),
            row("y", Err("why")),
            row("x", Ok(1)),
            row("x", Err("broken")),
            row("x", Ok(9)),
        ];
        let all = summarise(&rows);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].median.as_ref().unwrap().bytes, 1);
        assert_eq!((all[0].runs, all[0].failed), (4, 1));
        assert_eq!(all[1].median.as_ref().unwrap_err(), "why");
        let mostly = [
            row("x", Err("broken")),
            row("x", Ok(9)),
            row("x", Err("again")),
        ];
        assert_eq!(summarise(&mostly)[0].median.as_ref().unwrap_err(), "broken");
    }
}
