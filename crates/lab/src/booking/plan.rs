//! What a figure of delays is made of.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::position::fault_in;
use serde::Deserialize;

use crate::error::Result;
use crate::file::read;
use crate::quantity;

/// A figure to be: delays over load.
#[derive(Clone, Debug)]
pub struct BookingPlan {
    /// What its files are called.
    pub name: String,
    /// What stands above it.
    pub title: String,
    /// Parts of the capacity that files come to, in ascending order.
    pub loads: Vec<f64>,
    /// How often each point is simulated, with other files.
    pub runs: u64,
    /// Files of each run.
    pub files: usize,
    /// Files need up to so many millionths more than their bytes.
    pub resent_ppm_max: u32,
    /// Pairs of nodes that links join in both directions; none for one link.
    pub links: Vec<[String; 2]>,
    /// The curves; others are compared with the first one.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// What its columns are called.
    pub name: String,
    /// What the legend calls it.
    pub label: String,
    /// Who carries its files.
    pub discipline: Discipline,
    /// What moments are multiples of.
    pub slot: Duration,
    /// How long what is raised is dark.
    pub guard: Duration,
    /// Millionths that are booked for resends; nothing if the need is known.
    pub margin_ppm: Option<u32>,
    /// What becomes of what is booked and not needed.
    pub release: Release,
    /// Fewer channels are not used.
    pub least: u64,
    /// Thousandths of the link that are kept for each class.
    pub shares: [u16; 3],
    /// How many paths are tried.
    pub paths: usize,
}

/// Who carries files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// At whatever rate is free.
    Vbls,
    /// At the most, booked when asked for.
    FblsBook,
    /// At the most, as soon as it fits.
    FblsLs,
    /// At the most, one after the other.
    FblsFcfs,
    /// A queue of packets, as the paper has it.
    PsFifo,
    /// Max-min fair sharing.
    PsFair,
}

/// What becomes of what is booked and not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Release {
    /// It is held.
    #[default]
    Never,
    /// It is given back.
    Early,
    /// And all others are packed again.
    Repack,
}

impl BookingPlan {
    /// Reads the plan in a file; the figure is called as the file is.
    pub fn read(file: &Path) -> Result<Self> {
        read(file, Self::parse)
    }

    /// Reads a plan.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, String> {
        let settings: Settings =
            toml::from_str(text).map_err(|why| fault_in(text, why.span(), why.message()))?;
        let sane = settings.loads.is_sorted()
            && settings.loads.iter().all(|load| (0.0..=1.0).contains(load));
        if !sane
            || !(2..=RUNS_MAX).contains(&settings.runs)
            || settings.files < 20
            || settings.series.is_empty()
        {
            return Err(format!(
                "give loads from 0 to 1 in ascending order, 2 to {RUNS_MAX} runs of at least 20 files, and series"
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
            series: series.collect::<std::result::Result<_, _>>()?,
        })
    }
}

/// A plan as its file has it.
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
    fn check(self) -> std::result::Result<Series, String> {
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

/// As many as quantiles are known for.
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
    fn a_plan_is_read_or_refused() {
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
