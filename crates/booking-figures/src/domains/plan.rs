//! Plans of figures of domains.
//!
//! A [`DomainsPlan`] has the points of one of two figures ([`DomainsFigure`]): set-up times against the number of
//! domains, or blocked requests against the load. [`DomainsPlan::parse`] reads TOML and refuses values out of range.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_stargate::Signaling;
use lighthaul_stargate::key::HOPS_MAX;
use serde::Deserialize;

use lighthaul_lab::file;
use lighthaul_lab::quantity;

/// Plan of a figure.
#[derive(Clone, Debug)]
pub struct DomainsPlan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Points and curves.
    pub kind: DomainsFigure,
}

/// Points and curves of a figure.
#[derive(Clone, Debug)]
pub enum DomainsFigure {
    /// Time from the request to the outcome, against the number of domains in a chain.
    SetUp(Vec<u32>, Vec<SetUpSeries>),
    /// Requests that were refused, and utilization, against the load.
    Blocking(Blocking),
}

/// Curve of set-up times.
#[derive(Clone, Debug)]
pub struct SetUpSeries {
    /// Prefix of the columns of the series.
    pub name: String,
    /// Label in the legend.
    pub label: String,
    /// Delay of a message between neighbors, in one direction. Messages between others take the sum.
    pub delay: Duration,
    /// Order in which the domains are asked.
    pub signaling: Signaling,
}

/// Points, network and curves of blocked requests.
#[derive(Clone, Debug)]
pub struct Blocking {
    /// Offered loads, as parts of the capacity of the fullest link, in ascending order.
    pub loads: Vec<f64>,
    /// Number of simulations of each point, each with other requests.
    pub runs: u64,
    /// Number of requests of each run.
    pub requests: usize,
    /// Number of domains in a chain.
    pub domains: u32,
    /// Delay of a message between neighbors.
    pub delay: Duration,
    /// Channels of a link, and the rate of one.
    pub channels: u32,
    /// Rate of a channel.
    pub channel: Rate,
    /// Mean time that a request needs at `channels_max`.
    pub mean: Duration,
    /// Deadline of a request, in multiples of the time that it needs at `channels_max`.
    pub patience: u32,
    /// Highest rate of a request, in channels.
    pub channels_max: u32,
    /// Curves.
    pub series: Vec<BlockingSeries>,
}

/// Curve of blocked requests.
#[derive(Clone, Debug)]
pub struct BlockingSeries {
    /// Prefix of the columns of the series.
    pub name: String,
    /// Label in the legend.
    pub label: String,
    /// Rates that a reservation may have over time, in channels: lowest and highest. Equal ones are a lease of a fixed
    /// rate.
    pub channels: [u32; 2],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    set_up: Option<SetUpSettings>,
    blocking: Option<BlockingSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetUpSettings {
    domains: Vec<u32>,
    series: Vec<SetUpSeriesSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetUpSeriesSettings {
    name: String,
    label: String,
    delay: String,
    #[serde(default)]
    tree: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockingSettings {
    loads: Vec<f64>,
    runs: u64,
    requests: usize,
    domains: u32,
    delay: String,
    channels: u32,
    channel: String,
    mean: String,
    patience: u32,
    channels_max: u32,
    series: Vec<BlockingSeriesSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockingSeriesSettings {
    name: String,
    label: String,
    channels: [u32; 2],
}

impl DomainsPlan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        let kind = match (settings.set_up, settings.blocking) {
            (Some(set_up), None) => set_up.check()?,
            (None, Some(blocking)) => DomainsFigure::Blocking(blocking.check()?),
            (None, None) | (Some(_), Some(_)) => {
                return Err("a plan needs either `set_up` or `blocking`".into());
            }
        };
        Ok(Self {
            name: name.into(),
            title: settings.title,
            kind,
        })
    }
}

impl SetUpSettings {
    fn check(self) -> Result<DomainsFigure, String> {
        let sane =
            self.domains.is_sorted() && self.domains.iter().all(|count| DOMAINS.contains(count));
        if !sane || self.domains.is_empty() || self.series.is_empty() {
            return Err(format!(
                "`domains` must be from 2 to {HOPS_MAX} in ascending order, with a series"
            ));
        }
        let series = self.series.into_iter().map(|one| {
            Ok(SetUpSeries {
                delay: quantity::duration(&one.delay)?,
                signaling: if one.tree {
                    Signaling::Tree
                } else {
                    Signaling::Chain
                },
                name: one.name,
                label: one.label,
            })
        });
        Ok(DomainsFigure::SetUp(
            self.domains,
            series.collect::<Result<_, String>>()?,
        ))
    }
}

impl BlockingSettings {
    fn check(self) -> Result<Blocking, String> {
        let loads =
            self.loads.is_sorted() && self.loads.iter().all(|load| (0.01..=4.0).contains(load));
        if !loads
            || !(2..=RUNS_MAX).contains(&self.runs)
            || self.requests < 20
            || self.series.is_empty()
        {
            return Err(format!(
                "`loads` must be from 0.01 to 4 in ascending order, with 2 to {RUNS_MAX} runs of at least 20 requests, and a series"
            ));
        }
        let fits = |least: u32, most: u32| 0 < least && least <= most && most <= self.channels;
        let series = self.series.iter().map(|one| one.channels);
        if !DOMAINS.contains(&self.domains)
            || !fits(1, self.channels_max)
            || !series.clone().all(|[least, most]| fits(least, most))
            || !(1..=1000).contains(&self.patience)
        {
            return Err(format!(
                "`domains` must be from 2 to {HOPS_MAX}, `patience` from 1 to 1000, and rates at most the channels of a link"
            ));
        }
        let series = self.series.into_iter().map(|one| BlockingSeries {
            name: one.name,
            label: one.label,
            channels: one.channels,
        });
        Ok(Blocking {
            series: series.collect(),
            loads: self.loads,
            runs: self.runs,
            requests: self.requests,
            domains: self.domains,
            delay: quantity::duration(&self.delay)?,
            channels: self.channels,
            channel: quantity::rate(&self.channel)?,
            mean: quantity::duration(&self.mean)?,
            patience: self.patience,
            channels_max: self.channels_max,
        })
    }
}

/// Numbers of domains in a path.
const DOMAINS: std::ops::RangeInclusive<u32> = 2..=HOPS_MAX as u32;
/// Largest number of runs, for which a quantile is known.
const RUNS_MAX: u64 = 31;

#[cfg(test)]
mod tests {
    use super::*;

    const SET_UP: &str = r#"
        title = "t"
        [set_up]
        domains = [2, 30]
        series = [{ name = "a", label = "A", delay = "5ms", tree = true }]
    "#;
    const BLOCKING: &str = r#"
        title = "t"
        [blocking]
        loads = [0.5, 1.0]
        runs = 2
        requests = 20
        domains = 5
        delay = "10ms"
        channels = 10
        channel = "1Gb/s"
        mean = "60s"
        patience = 4
        channels_max = 4
        series = [{ name = "a", label = "A", channels = [1, 4] }]
    "#;

    #[test]
    fn plans_are_parsed_and_values_out_of_range_are_refused() {
        let is_set_up = |plan: DomainsPlan| matches!(plan.kind, DomainsFigure::SetUp(..));
        assert!(DomainsPlan::parse("p", SET_UP).is_ok_and(is_set_up));
        let is_blocking = |plan: DomainsPlan| matches!(plan.kind, DomainsFigure::Blocking(_));
        assert!(DomainsPlan::parse("p", BLOCKING).is_ok_and(is_blocking));
        for (text, from, to) in [
            (SET_UP, "[2, 30]", "[30, 2]"),
            (SET_UP, "[2, 30]", "[1, 30]"),
            (SET_UP, "[2, 30]", "[2, 33]"),
            (SET_UP, "[2, 30]", "[]"),
            (SET_UP, "5ms", "soon"),
            (SET_UP, "[set_up]", "[setup]"),
            (BLOCKING, "[0.5, 1.0]", "[0.5, 5.0]"),
            (BLOCKING, "[0.5, 1.0]", "[0.5, 0.4]"),
            (BLOCKING, "runs = 2", "runs = 1"),
            (BLOCKING, "requests = 20", "requests = 19"),
            (BLOCKING, "domains = 5", "domains = 1"),
            (BLOCKING, "patience = 4", "patience = 0"),
            (BLOCKING, "[1, 4]", "[5, 4]"),
            (BLOCKING, "[1, 4]", "[0, 4]"),
            (BLOCKING, "[1, 4]", "[1, 11]"),
            (BLOCKING, "channels_max = 4", "channels_max = 11"),
        ] {
            let plan = DomainsPlan::parse("p", &text.replace(from, to));
            assert!(plan.is_err(), "{to}: {plan:?}");
        }
    }
}
