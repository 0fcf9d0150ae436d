//! Plans of experiments in TOML: the variable, the path and the curves.
//!
//! A [`Plan`] describes one figure of transfers, and [`Plan::case`] gives the transfer of each
//! point. The same [`Case`] is simulated and emulated, so both worlds measure the same thing.

use std::time::Duration;

use lighthaul_base::Rate;
use serde::Deserialize;

use crate::file::{self, PacketSettings, PathSettings};
use crate::paper::PaperNumbers;
use crate::quantity::{self, bytes, rate};

/// Plan of a figure. Its points are [`Case`]s.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Variable of the horizontal axis.
    pub vary: Variable,
    /// Values of the variable, in ascending order: bits per second or bytes.
    pub values: Vec<u64>,
    /// Curves.
    pub series: Vec<Series>,
    /// Numbers of the paper.
    pub papers: Vec<PaperNumbers>,
    /// True to draw the time of a transfer instead of its goodput.
    pub draws_time: bool,
    /// Bytes to transfer per point. A smaller object is transferred repeatedly.
    pub bytes_per_point: u64,
    /// Number of seeds for the standard deviation of transfer times, which is drawn; `None` to draw goodput.
    pub spread: Option<u64>,
}

/// Variable of the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variable {
    /// Rate of the payload, in bits per second.
    Rate,
    /// Size of the object, in bytes.
    Object,
}

/// Curve of a figure.
#[derive(Clone, Debug)]
pub struct Series {
    /// Prefix of the columns of the series.
    pub name: String,
    /// Label in the legend.
    pub label: String,
    /// Title of the series' panel; empty if the figure has one panel.
    pub panel: String,
    /// True to add the curve of the analytical model.
    pub model: bool,
    /// Parameters of the simulated transfer, except the variable of the horizontal axis.
    case: Case,
}

/// Transfer of one point of a curve, to be simulated or emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// fields: one for each parameter of a figure
pub struct Case {
    /// Size of the object, in bytes.
    pub object_len: u64,
    /// Bits of the object sent per second, without headers (`B_send` in the paper).
    pub rate: Rate,
    /// Rate of the link in both directions.
    pub link: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Size of the link's queue, in bytes.
    pub queue_bytes_max: u64,
    /// Packet loss rate, in parts per billion.
    pub loss_ppb: u64,
    /// Object bits per second that a slow receiving host processes; `None` for a fast host.
    pub absorb: Option<Rate>,
    /// Size of the receiver's socket buffer, in bytes.
    pub socket_bytes_max: u64,
    /// Number of tasks that compete for the receiver's processor.
    pub competitors: u32,
    /// Nice value of the competing tasks.
    pub nice: i8,
    /// Processor time of the receiver's kernel for each datagram, including dropped datagrams.
    pub arrival: Duration,
    /// True if the receiver asks for pauses (RBUDP+).
    pub feedback: bool,
    /// Bytes of the object in a datagram.
    pub packet_len: u32,
    /// Bytes that IP, UDP and the connection number add to a datagram.
    pub overhead_len: u32,
    /// Time that the receiver waits for late datagrams.
    pub settle: Duration,
}

impl Plan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        settings.check(name)
    }

    /// Returns the point of `series` at `value`.
    pub fn case(&self, series: &Series, value: u64) -> Case {
        let mut case = series.case;
        match self.vary {
            Variable::Rate => case.rate = Rate::from_bps(value).unwrap_or(case.rate),
            Variable::Object => case.object_len = value,
        }
        case
    }

    /// Returns the seconds that the object of a series takes at a goodput in Mb/s, if times are drawn.
    pub fn time(&self, series: &Series, mbps: f64) -> Option<f64> {
        let seconds = series.case.object_len as f64 * 8.0 / 1e6 / mbps;
        self.draws_time.then_some(seconds)
    }

    /// Returns the number of repetitions of a point with objects of `object_len` bytes.
    pub fn runs(&self, object_len: u64) -> u64 {
        (self.bytes_per_point / object_len.max(1)).clamp(1, RUNS_MAX)
    }

    /// Returns the label of the horizontal axis.
    pub const fn axis(&self) -> &'static str {
        match self.vary {
            Variable::Rate => "send rate, Mb/s of payload",
            Variable::Object => "payload, MB",
        }
    }

    /// Returns the label of the vertical axis.
    pub const fn beside(&self) -> &'static str {
        if self.spread.is_some() {
            "standard deviation of the time, s"
        } else if self.draws_time {
            "time of the transfer, s"
        } else {
            "goodput, Mb/s"
        }
    }

    /// Returns the name of the first column.
    pub const fn column(&self) -> &'static str {
        match self.vary {
            Variable::Rate => "rate_mbps",
            Variable::Object => "object_mb",
        }
    }
}

/// Keys of the file of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    vary: Variable,
    values: Vec<String>,
    bytes_per_point: Option<String>,
    spread: Option<u64>,
    path: PathSettings,
    packet: PacketSettings,
    series: Vec<SeriesSettings>,
    #[serde(default)]
    draws_time: bool,
    #[serde(default)]
    paper: Vec<PaperNumbers>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
// fields: one for each parameter of a curve
struct SeriesSettings {
    name: String,
    label: String,
    #[serde(default)]
    panel: String,
    object: Option<String>,
    rate: Option<String>,
    loss: Option<String>,
    absorb: Option<String>,
    socket: Option<String>,
    #[serde(default)]
    competitors: u32,
    #[serde(default)]
    nice: i8,
    arrival: Option<String>,
    #[serde(default)]
    feedback: bool,
    #[serde(default)]
    model: bool,
}

impl Settings {
    fn check(self, name: &str) -> Result<Plan, String> {
        let read = |value: &String| match self.vary {
            Variable::Rate => rate(value).map(Rate::as_bps),
            Variable::Object => bytes(value),
        };
        let values = self
            .values
            .iter()
            .map(read)
            .collect::<Result<Vec<_>, _>>()?;
        if self
            .spread
            .is_some_and(|seeds| !(2..=RUNS_MAX).contains(&seeds))
        {
            return Err(format!("`spread` must be from 2 to {RUNS_MAX} seeds"));
        }
        if self.draws_time && (self.vary == Variable::Object || self.spread.is_some()) {
            return Err("a figure of times needs rates as its variable, and no `spread`".into());
        }
        if values.is_empty() || !values.is_sorted() || values[0] == 0 {
            return Err("`values` must be above zero and in ascending order".into());
        }
        let (link, rtt, queue_bytes_max) = self.path.check()?;
        let common = Case {
            object_len: 0,
            rate: Rate::UNLIMITED,
            link,
            rtt,
            queue_bytes_max,
            loss_ppb: 0,
            absorb: None,
            socket_bytes_max: 0,
            competitors: 0,
            nice: 0,
            arrival: Duration::ZERO,
            feedback: false,
            packet_len: self.packet.len,
            overhead_len: self.packet.overhead,
            settle: quantity::duration(&self.packet.settle)?,
        };
        let series = self
            .series
            .into_iter()
            .map(|series| series.check(self.vary, common));
        Ok(Plan {
            name: name.into(),
            title: self.title,
            vary: self.vary,
            values,
            series: series.collect::<Result<_, _>>()?,
            papers: self.paper,
            draws_time: self.draws_time,
            bytes_per_point: self.bytes_per_point.map_or(Ok(0), |text| bytes(&text))?,
            spread: self.spread,
        })
    }
}

impl SeriesSettings {
    fn check(self, vary: Variable, common: Case) -> Result<Series, String> {
        let case = Case {
            object_len: self.object.as_deref().map_or(Ok(0), bytes)?,
            rate: self.rate.as_deref().map_or(Ok(Rate::UNLIMITED), rate)?,
            loss_ppb: self.loss.as_deref().map_or(Ok(0), quantity::chance_ppb)?,
            absorb: self.absorb.as_deref().map(rate).transpose()?,
            socket_bytes_max: self.socket.as_deref().map_or(Ok(0), bytes)?,
            competitors: self.competitors,
            nice: self.nice,
            arrival: self
                .arrival
                .as_deref()
                .map_or(Ok(Duration::ZERO), quantity::duration)?,
            feedback: self.feedback,
            ..common
        };
        let given = match vary {
            Variable::Rate => self.object.is_some() && self.rate.is_none(),
            Variable::Object => self.object.is_none() && self.rate.is_some(),
        };
        if !given {
            return Err(format!(
                "series {}: give the one of `object` and `rate` that does not vary",
                self.name
            ));
        }
        if case.absorb.is_some() != (case.socket_bytes_max > 0) {
            return Err(format!(
                "series {}: give both `absorb` and `socket`, or neither",
                self.name
            ));
        }
        let has_processor = case.competitors > 0 || !case.arrival.is_zero();
        if case.absorb.is_none() && has_processor {
            return Err(format!(
                "series {}: `competitors` and `arrival` need `absorb` and `socket`",
                self.name
            ));
        }
        Ok(Series {
            name: self.name,
            label: self.label,
            panel: self.panel,
            model: self.model,
            case,
        })
    }
}

/// Limit of repetitions of a point.
const RUNS_MAX: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        vary = "rate"
        values = ["100Mb/s", "1Gb/s"]
        path = { rate = "1Gb/s", rtt = "110ms", queue = "1MiB" }
        packet = { len = 1464, overhead = 28, settle = "1ms" }
        series = [{ name = "a", label = "A", object = "450MB", loss = "12%" }]
    "#;

    #[test]
    fn plan_is_parsed_into_cases() {
        let plan = Plan::parse("p", PLAN).unwrap();
        let case = plan.case(&plan.series[0], plan.values[1]);
        assert_eq!(case.rate, Rate::from_mbps(1000));
        assert_eq!((case.object_len, case.loss_ppb), (450_000_000, 120_000_000));
        assert_eq!(plan.runs(450_000_000), 1);
    }

    #[test]
    fn invalid_plan_is_rejected() {
        for (from, to) in [
            ("object = \"450MB\"", "rate = \"1Gb/s\""),
            ("\"100Mb/s\", \"1Gb/s\"", "\"1Gb/s\", \"100Mb/s\""),
            ("\"110ms\"", "\"soon\""),
            ("loss = \"12%\"", "absorb = \"1Gb/s\""),
            ("label", "lable"),
        ] {
            assert!(Plan::parse("p", &PLAN.replace(from, to)).is_err(), "{to}");
        }
    }
}
