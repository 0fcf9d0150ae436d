//! Run of all requested measurements.
//!
//! Each measurement has a list of paths, and each path has a lab of its own with fresh gateways.
//! Lines appear on standard error as they are measured, and the whole table at the end. With a
//! directory for figures, a measurement also writes its figure, from the lines so far even if it
//! fails. Each line names its unit.

use std::ffi::OsString;
use std::path::Path as Folder;
use std::process::ExitCode;

use clap::Parser;
use lighthaul_lab::measured::MeasuredPlan;

use super::args::{Args, Measurement};
use super::goodput_curve::{GoodputCurve, Program};
use super::path::{EDGES_MS, Path};
use super::site::Site;
use super::table::{Line, Table};
use super::{iperf, keys, short_connections};

/// Runs the requested measurements, and prints a table.
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
        let before = table.lines.len();
        let outcome = run(&mut table, *part, args);
        if let (Some(folder), Some(name)) = (&args.keep, part.figure()) {
            keep(folder, name, &table.lines[before..])?;
        }
        outcome?;
    }
    Ok(table)
}

fn run(table: &mut Table, measurement: Measurement, args: &Args) -> Result<(), String> {
    for path in measurement.paths() {
        let site = Site::start(args, &path)?;
        let mut add = |line: Line| {
            eprintln!("{line}");
            table.lines.push(line);
        };
        match measurement {
            Measurement::Keys => add(keys::measure(&site, &path)?),
            Measurement::Brief => add(short_connections::measure(&site, &path, args)?),
            Measurement::Lengths => lengths(&site, &path, args, &mut add)?,
            Measurement::Courses => courses(&site, &path, args, &mut add)?,
            Measurement::Long
            | Measurement::Short
            | Measurement::Delays
            | Measurement::Near
            | Measurement::Edges => {
                for _ in 0..args.runs {
                    for route in measurement.routes() {
                        add(iperf::measure(
                            &site,
                            &path,
                            *route,
                            measurement.seconds(args),
                        )?);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Measures the mean goodput of programs after several durations, as if they had ended then.
fn lengths(
    site: &Site,
    path: &Path,
    args: &Args,
    add: &mut impl FnMut(Line),
) -> Result<(), String> {
    let seconds = Measurement::Lengths.seconds(args);
    for _ in 0..args.runs {
        for program in [Program::Iperf, Program::GridFtp] {
            for route in Measurement::Lengths.routes() {
                let goodput_curve = GoodputCurve::measure(site, path, (program, *route), seconds)?;
                for till in LENGTHS.into_iter().filter(|till| *till <= seconds) {
                    add(Line {
                        path: format!("{}, {till} s", path.name),
                        route: format!("{}, {}", program.name(), route.name()),
                        value: goodput_curve.mbps(0.0, f64::from(till)),
                        unit: "Mb/s",
                        remark: goodput_curve.cost(),
                        place: Some((
                            format!("{}_{}", program.name(), route.column()),
                            f64::from(till),
                        )),
                    });
                }
            }
        }
    }
    Ok(())
}

/// Measures the goodput of a program in steps of two seconds.
fn courses(
    site: &Site,
    path: &Path,
    args: &Args,
    add: &mut impl FnMut(Line),
) -> Result<(), String> {
    let (seconds, rtt) = (Measurement::Courses.seconds(args), path.rtt_ms - EDGES_MS);
    for route in Measurement::Courses.routes() {
        let goodput_curve = GoodputCurve::measure(site, path, (Program::GridFtp, *route), seconds)?;
        for till in (STEP..=seconds).step_by(STEP as usize) {
            let (from, till) = (f64::from(till - STEP), f64::from(till));
            add(Line {
                path: format!("{}, {from} to {till} s", path.name),
                route: format!("gridftp, {}", route.name()),
                value: goodput_curve.mbps(from, till),
                unit: "Mb/s",
                remark: goodput_curve.cost(),
                place: Some((format!("rtt{rtt}_{}", route.column()), till)),
            });
        }
    }
    Ok(())
}

/// Writes the figure of measurements.
fn keep(folder: &Folder, name: &str, lines: &[Line]) -> Result<(), String> {
    let plan = MeasuredPlan::read(&folder.join(format!("{name}.toml")));
    let plan = plan.map_err(|e| e.to_string())?;
    let sample = |line: &Line| {
        let (column, key) = line.place.clone()?;
        Some((column, key, line.value))
    };
    let samples: Vec<_> = lines.iter().filter_map(sample).collect();
    if samples.is_empty() {
        return Ok(());
    }
    let kept = plan.keep(folder, plan.table(&samples));
    let kept = kept.map_err(|e| e.to_string())?;
    eprintln!("{}", kept.picture.display());
    Ok(())
}

/// Durations of figure 3a, in seconds.
const LENGTHS: [u32; 7] = [2, 5, 10, 20, 30, 60, 120];
/// Interval of figure 3b, in seconds.
const STEP: u32 = 2;
