//! Measures one thing after another.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use super::args::{Args, Part};
use super::site::{Path, Site};
use super::table::{Line, Table};
use super::{brief, iperf, keys};

/// Measures what is asked for, and prints it.
pub(crate) fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words = std::iter::once("cargo xtask gateways".into()).chain(words);
    let args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    match measure(&args) {
        Ok(table) => {
            println!("{table}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<Table, String> {
    let mut table = Table::default();
    for part in &args.part {
        for path in part.paths() {
            let site = Site::start(args, &path)?;
            let lines = match part {
                Part::Keys => vec![keys::measure(&site, &path)?],
                Part::Brief => vec![brief::measure(&site, &path, args)?],
                Part::Long | Part::Short | Part::Delays | Part::Near => {
                    streams(&site, &path, *part, args)?
                }
            };
            for line in lines {
                eprintln!("{line}");
                table.lines.push(line);
            }
        }
    }
    Ok(table)
}

/// Streams through the gateways, and directly with each congestion control.
fn streams(site: &Site, path: &Path, part: Part, args: &Args) -> Result<Vec<Line>, String> {
    let seconds = part.seconds(args);
    let mut lines = Vec::new();
    for _ in 0..args.runs {
        for way in part.ways() {
            lines.push(iperf::measure(site, path, *way, seconds)?);
        }
    }
    Ok(lines)
}
