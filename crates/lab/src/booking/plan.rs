//! Plans of figures of delays.
//!
//! A [`BookingPlan`] has offered loads (points) and [`Series`] (curves). Each series combines a
//! [`Discipline`] with settings of its calendar and a [`Release`] rule. [`BookingPlan::parse`]
//! reads TOML and checks loads, runs, files and the number of series. Loads are parts of the
//! capacity, shares are thousandths, and margins are millionths. `delay` computes the table of a
//! plan.

use std::time::Duration;

use serde::Deserialize;

use crate::file;
use crate::quantity;

/// Plan of a figure: delays over load.
#[derive(Clone, Debug)]
pub struct BookingPlan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Offered loads, as parts of the capacity, in ascending order.
    pub loads: Vec<f64>,
    /// Number of simulations of each point, each with other files.
    pub runs: u64,
    /// Number of files of each run.
    pub files: usize,
    /// Largest part of a file that is retransmitted, in millionths.
    pub resent_ppm_max: u32,
    /// Pairs of nodes that are linked in both directions. Empty for a single link.
    pub links: Vec<[String; 2]>,
    /// Curves. Each is compared with the first one.
    pub series: Vec<Series>,
}

/// Curve of a figure.
#[derive(Clone, Debug)]
pub struct Series {
    /// Prefix of its columns.
    pub name: String,
    /// Label in the legend.
    pub label: String,
    /// Discipline that carries the files.
    pub discipline: Discipline,
    /// Unit of time of bookings.
    pub slot: Duration,
    /// Guard time after a rate increase, in which the added capacity is dark.
    pub guard: Duration,
    /// Capacity booked for retransmissions, in millionths of the bytes; `None` to book the exact
    /// need.
    pub margin_ppm: Option<u32>,
    /// Use of capacity that is booked and not needed.
    pub release: Release,
    /// Smallest number of channels that a grant may have.
    pub least: u64,
    /// Part of the link that is reserved for each class, in thousandths.
    pub shares: [u16; 3],
    /// Number of paths that are tried.
    pub paths: usize,
}

/// Discipline by which files share the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// Varying rates: uses the capacity that is free (VBLS).
    Vbls,
    /// Fixed rate, the largest possible, booked at the request (FBLS).
    FblsBook,
    /// Fixed rate, started as soon as it fits, possibly before earlier requests.
    FblsLs,
    /// Fixed rate, started in the order of requests.
    FblsFcfs,
    /// First-in, first-out packet queue, as in the paper.
    PsFifo,
    /// Max-min fair sharing.
    PsFair,
}

/// Use of capacity that is booked and not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Release {
    /// The capacity stays reserved.
    #[default]
    Never,
    /// The capacity is released early.
    Early,
    /// The capacity is released, and all other bookings are packed again.
    Repack,
}

impl BookingPlan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        let sane = settings.loads.is_sorted()
            && settings.loads.iter().all(|load| (0.0..=1.0).contains(load));
        if !sane
            || !(2..=RUNS_MAX).contains(&settings.runs)
            || settings.files < 20
            || settings.series.is_empty()
        {
            return Err(format!(
                "a plan needs loads from 0 to 1 in ascending order, 2 to {RUNS_MAX} runs of at least 20 files, and a series"
            ));
        }
        let series = settings.series.into_iter().map(SeriesSettings::check);
        Ok(Self {
            name: name.into(),
            title: settings.title,
            loads: settings.loads,
            runs: settings.runs,
            files: settings.files,
            resent_ppm_max: settings.resent_ppm_max,
            links: settings.links,
            series: series.collect::<Result<_, _>>()?,
        })
    }
}

/// Plan as written in its file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    loads: Vec<f64>,
    runs: u64,
    files: usize,
    #[serde(default)]
    resent_ppm_max: u32,
    #[serde(default)]
    links: Vec<[String; 2]>,
    series: Vec<SeriesSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesSettings {
    name: String,
    label: String,
    discipline: Discipline,
    slot: Option<String>,
    guard: Option<String>,
    margin_ppm: Option<u32>,
    #[serde(default)]
    release: Release,
    #[serde(default)]
    least: u64,
    #[serde(default)]
    shares: [u16; 3],
    paths: Option<usize>,
}

impl SeriesSettings {
    fn check(self) -> Result<Series, String> {
        let time = |text: &Option<String>, default| {
            text.as_deref().map_or(Ok(default), quantity::duration)
        };
        Ok(Series {
            discipline: self.discipline,
            slot: time(&self.slot, Duration::from_nanos(1))?,
            guard: time(&self.guard, Duration::ZERO)?,
            margin_ppm: self.margin_ppm,
            release: self.release,
            least: self.least,
            shares: self.shares,
            paths: self.paths.unwrap_or(1),
            name: self.name,
            label: self.label,
        })
    }
}

/// Largest number of runs, for which a quantile is known.
const RUNS_MAX: u64 = 31;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        loads = [0.5, 0.9]
        runs = 2
        files = 100
        series = [{ name = "a", label = "A", discipline = "ps-fifo", slot = "10ms" }]
    "#;

    #[test]
    fn plan_is_parsed_and_invalid_values_are_rejected() {
        let plan = BookingPlan::parse("p", PLAN).unwrap();
        assert_eq!(plan.series[0].discipline, Discipline::PsFifo);
        assert_eq!(plan.series[0].slot, Duration::from_millis(10));
        for (from, to) in [
            ("0.9", "0.4"),
            ("0.9", "1.4"),
            ("runs = 2", "runs = 1"),
            ("files = 100", "files = 10"),
            ("ps-fifo", "post"),
            ("10ms", "soon"),
            ("label", "lable"),
        ] {
            assert!(
                BookingPlan::parse("p", &PLAN.replace(from, to)).is_err(),
                "{to}"
            );
        }
    }
}
