//! Plans of figures of delays.
//!
//! A [`BookingPlan`] has offered loads (points) and [`Series`] (curves). Each series combines a
//! [`Discipline`] with settings of its calendar and a [`Release`] rule. [`BookingPlan::parse`]
//! reads TOML and checks all of it, so that no simulation of a plan fails. Loads are parts of the
//! capacity, shares are thousandths, and margins are millionths. `delay` computes the table of a
//! plan.

use std::time::Duration;

use lighthaul_calendar::path::HOPS_MAX;
use serde::Deserialize;

use super::arrivals::CLASSES;
use super::network::{CHANNELS, calendar};
use lighthaul_lab::file;
use lighthaul_lab::quantity;

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
    /// Prefix of the columns of the series.
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
    /// Fixed rate, started as soon as the file fits, possibly before earlier requests.
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
            && settings
                .loads
                .iter()
                .all(|load| (LOAD_MIN..=1.0).contains(load));
        if !sane
            || !(2..=RUNS_MAX).contains(&settings.runs)
            || settings.files < 20
            || settings.series.is_empty()
        {
            return Err(format!(
                "a plan needs loads from {LOAD_MIN} to 1 in ascending order, 2 to {RUNS_MAX} runs of at least 20 files, and a series"
            ));
        }
        if settings.links.len() > HOPS_MAX {
            return Err(format!("a plan has at most {HOPS_MAX} links"));
        }
        if settings.resent_ppm_max > PPM_MAX {
            return Err(format!("resent_ppm_max: at most {PPM_MAX} millionths"));
        }
        let links = &settings.links;
        let series = settings.series.into_iter().map(|series| {
            let name = series.name.clone();
            let checked = series.check().and_then(|series| {
                let times = (series.slot, series.guard);
                calendar(links, times, series.shares, series.paths)?;
                Ok(series)
            });
            checked.map_err(|why| format!("series {name}: {why}"))
        });
        let series = series.collect::<Result<_, _>>()?;
        Ok(Self {
            name: name.into(),
            title: settings.title,
            loads: settings.loads,
            runs: settings.runs,
            files: settings.files,
            resent_ppm_max: settings.resent_ppm_max,
            links: settings.links,
            series,
        })
    }
}

/// Keys of the file of a plan.
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
        if self.margin_ppm.is_some_and(|margin| margin > PPM_MAX) {
            return Err(format!("margin_ppm: at most {PPM_MAX} millionths"));
        }
        self.check_shares()?;
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

    /// Refuses shares with which the files of a class never fit.
    fn check_shares(&self) -> Result<(), String> {
        let kept: u64 = self.shares.iter().map(|share| u64::from(*share)).sum();
        let free = 1000_u64.checked_sub(kept);
        let free = free.ok_or("shares: at most 1000 thousandths in total")?;
        for (class, share) in CLASSES.iter().zip(self.shares) {
            let channels = (free + u64::from(share)) * CHANNELS / 1000;
            let least = self.least.min(*class).max(1);
            if channels < least {
                return Err(format!(
                    "shares: files of class {class} need {least} of {CHANNELS} channels, and can have {channels}"
                ));
            }
        }
        Ok(())
    }
}

/// Largest number of runs, for which a quantile is known.
const RUNS_MAX: u64 = 31;
/// Smallest load, with which the files of a run arrive within years.
const LOAD_MIN: f64 = 0.001;
/// All of a file, in millionths.
const PPM_MAX: u32 = 1_000_000;

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
    fn plan_with_shares_and_links_is_accepted() {
        let links = "links = [['a', 'b'], ['b', 'c']]\nseries";
        let text = PLAN.replace("series", links);
        let shares = ", shares = [300, 600, 0], least = 10, paths = 2 }]";
        let plan = BookingPlan::parse("p", &text.replace("}]", shares)).unwrap();
        assert_eq!(plan.series[0].paths, 2);
    }

    #[test]
    fn plan_is_parsed_and_invalid_values_are_rejected() {
        let plan = BookingPlan::parse("p", PLAN).unwrap();
        assert_eq!(plan.series[0].discipline, Discipline::PsFifo);
        assert_eq!(plan.series[0].slot, Duration::from_millis(10));
        for (from, to) in [
            ("0.9", "0.4"),
            ("0.9", "1.4"),
            ("0.5", "0"),
            ("10ms", "0s"),
            ("}]", ", paths = 0 }]"),
            ("}]", ", margin_ppm = 1000001 }]"),
            ("}]", ", shares = [500, 500, 1] }]"),
            ("}]", ", shares = [995, 0, 0] }]"),
            ("}]", ", shares = [0, 960, 0], least = 5 }]"),
            ("series", "resent_ppm_max = 1000001\nseries"),
            ("series", "links = [['a', 'a']]\nseries"),
            ("series", "links = [['a', 'b'], ['b', 'a']]\nseries"),
            ("series", "links = [['a', 'b'], ['c', 'd']]\nseries"),
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
