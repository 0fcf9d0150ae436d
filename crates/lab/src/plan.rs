//! An experiment in TOML: what varies, over which path, and which curves come of it.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::position::fault_in;
use serde::Deserialize;

use crate::error::Result;
use crate::file::{PacketSettings, PathSettings, read};
use crate::quantity::{self, bytes, rate};

/// A figure to be: its points are [`Case`]s.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the files of the figure are called.
    pub name: String,
    /// What stands above the figure.
    pub title: String,
    /// What varies from point to point.
    pub vary: Vary,
    /// What it varies over, in ascending order.
    pub values: Vec<u64>,
    /// The curves.
    pub series: Vec<Series>,
    /// Horizontal lines.
    pub marks: Vec<Mark>,
    /// Points of fewer bytes are repeated until so many have crossed.
    pub bytes_per_point: u64,
    /// The figure is of how much the time of a transfer differs over so many seeds, not of goodput.
    pub spread: Option<u64>,
}

/// What varies from point to point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vary {
    /// The payload's rate, in bits a second.
    Rate,
    /// The object, in bytes.
    Object,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// What its columns are called.
    pub name: String,
    /// What the legend calls it.
    pub label: String,
    /// Whether the analytical model has a say.
    pub model: bool,
    /// Its points, but for what varies.
    case: Case,
}

/// A horizontal line, say a number of the paper.
#[derive(Clone, Debug)]
pub struct Mark {
    /// What stands beside it.
    pub label: String,
    /// Where it is, in Mb/s.
    pub mbps: f64,
}

/// One point of one curve: a transfer that somebody may simulate or emulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Bytes of the object.
    pub object_len: u64,
    /// Bits of the object sent each second: the paper's `B_send`, headers not counted.
    pub rate: Rate,
    /// The link's rate, in both directions.
    pub link: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Bytes of the link's queue.
    pub queue_bytes_max: u64,
    /// Datagrams lost, of a thousand million.
    pub loss_ppb: u64,
    /// What the receiving host takes in, as bits of the object a second, if it is slow.
    pub absorb: Option<Rate>,
    /// Bytes that its socket holds.
    pub socket_bytes_max: u64,
    /// Tasks that compete for its processor.
    pub competitors: u32,
    /// Whether it asks for pauses (RBUDP+).
    pub feedback: bool,
    /// Bytes of the object in a datagram.
    pub packet_len: u32,
    /// Bytes that IP, UDP and world add to it.
    pub overhead_len: u32,
    /// How long the receiver waits for late datagrams.
    pub settle: Duration,
}

impl Plan {
    /// Reads the plan in a file; the figure is called as the file is.
    pub fn read(file: &Path) -> Result<Self> {
        read(file, Self::parse)
    }

    /// Reads a plan.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, String> {
        let settings: Settings =
            toml::from_str(text).map_err(|why| fault_in(text, why.span(), why.message()))?;
        settings.check(name)
    }

    /// The point of `series` at `value`.
    pub fn case(&self, series: &Series, value: u64) -> Case {
        let mut case = series.case;
        match self.vary {
            Vary::Rate => case.rate = Rate::from_bps(value).unwrap_or(case.rate),
            Vary::Object => case.object_len = value,
        }
        case
    }

    /// How often a point of `object_len` bytes is repeated.
    pub fn runs(&self, object_len: u64) -> u64 {
        (self.bytes_per_point / object_len.max(1)).clamp(1, RUNS_MAX)
    }

    /// What stands below the figure.
    pub const fn axis(&self) -> &'static str {
        match self.vary {
            Vary::Rate => "send rate, Mb/s of payload",
            Vary::Object => "payload, MB",
        }
    }

    /// What stands beside the figure.
    pub const fn beside(&self) -> &'static str {
        if self.spread.is_some() {
            "standard deviation of the time, s"
        } else {
            "goodput, Mb/s"
        }
    }

    /// What the first column is called.
    pub const fn column(&self) -> &'static str {
        match self.vary {
            Vary::Rate => "rate_mbps",
            Vary::Object => "object_mb",
        }
    }
}

/// A plan as its file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    vary: Vary,
    values: Vec<String>,
    bytes_per_point: Option<String>,
    spread: Option<u64>,
    path: PathSettings,
    packet: PacketSettings,
    series: Vec<SeriesSettings>,
    #[serde(default)]
    mark: Vec<MarkSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesSettings {
    name: String,
    label: String,
    object: Option<String>,
    rate: Option<String>,
    loss: Option<String>,
    absorb: Option<String>,
    socket: Option<String>,
    #[serde(default)]
    competitors: u32,
    #[serde(default)]
    feedback: bool,
    #[serde(default)]
    model: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkSettings {
    label: String,
    goodput: String,
}

impl Settings {
    fn check(self, name: &str) -> std::result::Result<Plan, String> {
        let read = |value: &String| match self.vary {
            Vary::Rate => rate(value).map(Rate::as_bps),
            Vary::Object => bytes(value),
        };
        let values = self
            .values
            .iter()
            .map(read)
            .collect::<std::result::Result<Vec<_>, _>>()?;
        if self
            .spread
            .is_some_and(|seeds| !(2..=RUNS_MAX).contains(&seeds))
        {
            return Err(format!("`spread` is over 2 to {RUNS_MAX} seeds"));
        }
        if values.is_empty() || !values.is_sorted() || values[0] == 0 {
            return Err("values must be above zero and in ascending order".into());
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
            feedback: false,
            packet_len: self.packet.len,
            overhead_len: self.packet.overhead,
            settle: quantity::duration(&self.packet.settle)?,
        };
        let series = self
            .series
            .into_iter()
            .map(|series| series.check(self.vary, common));
        let marks = self.mark.into_iter().map(MarkSettings::check);
        Ok(Plan {
            name: name.into(),
            title: self.title,
            vary: self.vary,
            values,
            series: series.collect::<std::result::Result<_, _>>()?,
            marks: marks.collect::<std::result::Result<_, _>>()?,
            bytes_per_point: self.bytes_per_point.map_or(Ok(0), |text| bytes(&text))?,
            spread: self.spread,
        })
    }
}

impl SeriesSettings {
    fn check(self, vary: Vary, common: Case) -> std::result::Result<Series, String> {
        let case = Case {
            object_len: self.object.as_deref().map_or(Ok(0), bytes)?,
            rate: self.rate.as_deref().map_or(Ok(Rate::UNLIMITED), rate)?,
            loss_ppb: self.loss.as_deref().map_or(Ok(0), quantity::chance_ppb)?,
            absorb: self.absorb.as_deref().map(rate).transpose()?,
            socket_bytes_max: self.socket.as_deref().map_or(Ok(0), bytes)?,
            competitors: self.competitors,
            feedback: self.feedback,
            ..common
        };
        let given = match vary {
            Vary::Rate => self.object.is_some() && self.rate.is_none(),
            Vary::Object => self.object.is_none() && self.rate.is_some(),
        };
        if !given {
            return Err(format!(
                "series {}: give `object` or `rate`, what does not vary",
                self.name
            ));
        }
        if case.absorb.is_some() != (case.socket_bytes_max > 0) {
            return Err(format!(
                "series {}: `absorb` and `socket` come together",
                self.name
            ));
        }
        if case.absorb.is_none() && case.competitors > 0 {
            return Err(format!(
                "series {}: `competitors` slow down a host that has an `absorb`",
                self.name
            ));
        }
        Ok(Series {
            name: self.name,
            label: self.label,
            model: self.model,
            case,
        })
    }
}

impl MarkSettings {
    fn check(self) -> std::result::Result<Mark, String> {
        let mbps = rate(&self.goodput)?.as_mbps_f64();
        Ok(Mark {
            label: self.label,
            mbps,
        })
    }
}

/// No point is repeated more often.
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
    fn a_plan_becomes_cases() {
        let plan = Plan::parse("p", PLAN).unwrap();
        let case = plan.case(&plan.series[0], plan.values[1]);
        assert_eq!(case.rate, Rate::from_mbps(1000));
        assert_eq!((case.object_len, case.loss_ppb), (450_000_000, 120_000_000));
        assert_eq!(plan.runs(450_000_000), 1);
    }

    #[test]
    fn a_plan_that_makes_no_sense_is_refused() {
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
