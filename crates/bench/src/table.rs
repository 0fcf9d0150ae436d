//! Output of the bench: a line per run, and tables as text, Markdown and CSV.
//!
//! `publish` prints a `Report` and writes `table.txt`, `table.md`, `table.csv` and `targets.csv`.
//! Each row shows the run with the median goodput; times are in seconds and goodput is in Mb/s. The
//! column `x ours` divides the goodput by that of Lighthaul in the same cell. A program without a
//! median has the reason of a failure in its row.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::outcome::{Outcome, Row, Summary};
use super::targets;

/// All results, with the conditions of the measurements.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) summaries: Vec<Summary>,
    pub(crate) missing: Vec<String>,
    pub(crate) places: Vec<String>,
    pub(crate) machine: String,
    pub(crate) runs: u32,
    pub(crate) limit_s: f64,
}

/// Prints the tables, and writes them into the directory `out`.
pub(crate) fn publish(report: &Report, out: &Path) -> io::Result<()> {
    let grid: Vec<Vec<String>> = report.summaries.iter().map(|s| cells(s, report)).collect();
    let targets: Vec<Vec<String>> = targets::lines(&report.summaries)
        .iter()
        .map(targets::Target::cells)
        .collect();
    let words = words(report);
    let sheet = |draw: fn(&[&str], &[Vec<String>]) -> String| {
        let [main, goals] = [draw(&HEAD, &grid), draw(&targets::HEAD, &targets)];
        format!("{main}\n{goals}\n{words}")
    };
    let shown = sheet(text);
    write!(io::stdout(), "{shown}")?;
    fs::create_dir_all(out)?;
    fs::write(out.join("table.txt"), shown)?;
    fs::write(out.join("table.md"), sheet(markdown))?;
    fs::write(out.join("table.csv"), csv(&HEAD, &grid))?;
    fs::write(out.join("targets.csv"), csv(&targets::HEAD, &targets))
}

/// Formats a run as one line.
pub(crate) fn line(row: &Row) -> String {
    let head = format!("  {:<11} {:<24}", row.data.name(), row.tool);
    match &row.result {
        Ok(outcome) => {
            let mbps = outcome.bps() / 1e6;
            let cut = if outcome.is_cut { "  cut off" } else { "" };
            format!("{head} {:>7.2} s {mbps:>9.1} Mb/s{cut}", outcome.seconds)
        }
        Err(why) => format!("{head} failed: {why}"),
    }
}

/// Formats a program in a cell as a row of the table.
fn cells(summary: &Summary, report: &Report) -> Vec<String> {
    let loss = summary.loss.to_string();
    let mut row = [
        summary.path.name(),
        &loss,
        summary.data.name(),
        &summary.tool,
    ]
    .map(str::to_owned)
    .to_vec();
    let outcome = match &summary.median {
        Ok(outcome) => outcome,
        Err(why) => {
            row.extend(["-"; 8].map(str::to_owned));
            row.push(format!(
                "FAILED: {why}; {} of {} runs failed",
                summary.failed, summary.runs
            ));
            return row;
        }
    };
    let share = summary.path.payload_bps().map(|bps| outcome.bps() / bps);
    let ours = report.summaries.iter().find(|other| {
        let place = |s: &Summary| (s.path, s.loss, s.data);
        place(other) == place(summary) && other.tool == targets::ours_for(summary.data)
    });
    let ours = ours.and_then(|ours| ours.median.as_ref().ok());
    let ratio = ours.map(|ours| outcome.bps() / ours.bps());
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let mib = summary.rss_bytes.map(|bytes| (bytes >> 20).to_string());
    row.extend([
        number(Some(outcome.seconds), 2),
        number(Some(outcome.bps() / 1e6), 1),
        spread(summary),
        number(share, 3),
        number(ratio, 3),
        number(outcome.cpu_per_gb(), 2),
        mib[0].clone(),
        mib[1].clone(),
    ]);
    let mut notes = Vec::new();
    if outcome.is_cut {
        notes.push("cut off".to_owned());
    }
    if summary.failed > 0 {
        notes.push(format!(
            "{} of {} runs failed",
            summary.failed, summary.runs
        ));
    }
    if let Some(report) = outcome.report {
        let start = outcome.seconds - report.moving_s;
        notes.push(format!(
            "{start:.2} s start-up, {:.1} Mb/s without it",
            report.goodput_bps / 1e6
        ));
        if report.resent > 0.0 {
            notes.push(format!("{:.2} % retransmitted", report.resent * 100.0));
        }
    }
    row.push(notes.join("; "));
    row
}

/// Formats the goodput of the slowest and the fastest run.
fn spread(summary: &Summary) -> String {
    let ends = summary
        .good
        .first()
        .zip(summary.good.last())
        .filter(|_| summary.good.len() > 1);
    let mbps = |outcome: &Outcome| outcome.bps() / 1e6;
    ends.map_or_else(
        || "-".to_owned(),
        |(low, high)| format!("{:.0}-{:.0}", mbps(low), mbps(high)),
    )
}

/// Describes the conditions, for readers of the table.
fn words(report: &Report) -> String {
    let mut text = format!(
        "{}. Medians of {} run(s). A run that exceeds {} s is cut off: it counts with the bytes that \
         had arrived, and is not repeated.\n",
        report.machine, report.runs, report.limit_s
    );
    text.push_str(
        "Seconds: for programs that copy files, the whole command with start-up and end. iperf3, \
         raw-udp, quinn-perf and lighthaul-memory send memory and report their own time, without \
         start-up.\nx ours: favors iperf3 where Lighthaul copies files. iperf3's CPU s/GB is too high, \
         since bytes in flight at the end do not count.\nshare: part of the UDP payload that full \
         1500-byte packets carry. CPU: both sides, kernel included, per 10^9 bytes.\n\
         MiB: the largest process of a side. Copies are compared with their sources afterwards; a run \
         with a difference has failed. Failed runs count as the slowest.\n",
    );
    for line in &report.places {
        writeln!(text, "{line}.").ok();
    }
    for line in &report.missing {
        writeln!(text, "Missing: {line}.").ok();
    }
    text
}

fn text(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    let head = head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>();
    for row in std::iter::once(&head).chain(rows) {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn markdown(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        writeln!(out, "| {} |", row.join(" | ").replace('\n', " ")).ok();
    }
    out
}

fn csv(head: &[&str], rows: &[Vec<String>]) -> String {
    let quote = |cell: &str| {
        let plain = !cell.contains([',', '"', '\n']);
        if plain {
            cell.to_owned()
        } else {
            format!("\"{}\"", cell.replace('"', "\"\""))
        }
    };
    let mut out = head.join(",") + "\n";
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| quote(cell)).collect();
        out.push_str(&(cells.join(",") + "\n"));
    }
    out
}

const HEAD: [&str; 13] = [
    "path", "loss", "data", "program", "seconds", "Mb/s", "min-max", "share", "x ours", "CPU s/GB",
    "MiB a", "MiB b", "notes",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_special_characters() {
        let row = vec!["a,b".to_owned(), "say \"x\"".to_owned()];
        assert_eq!(csv(&["1", "2"], &[row]), "1,2\n\"a,b\",\"say \"\"x\"\"\"\n");
    }

    #[test]
    fn text_columns_are_aligned() {
        let row = |one: &str, two: &str| vec![one.to_owned(), two.to_owned()];
        let drawn = text(&["x", "yy"], &[row("long", "1"), row("s", "2")]);
        assert_eq!(drawn, "x     yy\nlong  1\ns     2\n");
    }
}
