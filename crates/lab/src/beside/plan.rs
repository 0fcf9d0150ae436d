//! Plans of SABUL flows beside TCP, and into slow disks, in TOML.
//!
//! A [`BesidePlan`] has a link, a variable and curves. Each point is one simulation, from time zero on; the mean of a
//! flow is taken from `from` to `till`.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_proto::sabul::Mode;
use lighthaul_workload::tcp::Algorithm;
use serde::Deserialize;

use crate::file;
use crate::paper::PaperNumbers;
use crate::quantity::{bytes, duration, rate};

/// Plan of a figure.
#[derive(Clone, Debug)]
pub struct BesidePlan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Variable of the horizontal axis.
    pub vary: Variable,
    /// Values of the variable: packets, nanoseconds, or bits per second.
    pub values: Vec<u64>,
    /// Start and end of the measurement.
    pub measured: [Duration; 2],
    /// Curves.
    pub series: Vec<Series>,
    /// Numbers of the paper.
    pub papers: Vec<PaperNumbers>,
}

/// Variable of the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variable {
    /// Packets that the link's queue holds.
    Queue,
    /// Round-trip time.
    Rtt,
    /// Rate at which the target's disk takes data.
    Disk,
}

/// Curve of a figure, or two curves: of SABUL, and of TCP beside it.
#[derive(Clone, Debug)]
// fields: one for each parameter of a curve
pub struct Series {
    /// Prefix of the columns of the series.
    pub name: String,
    /// Label in the picture.
    pub label: String,
    /// Title of the series' panel.
    pub panel: String,
    /// Rate of the link.
    pub link: Rate,
    /// Round-trip time, unless the horizontal axis shows it.
    pub rtt: Duration,
    /// Mode of SABUL.
    pub mode: Mode,
    /// Congestion control of the TCP flows beside SABUL, and the number of flows of each kind.
    pub tcp: Option<(Algorithm, u32)>,
    /// Largest rate of a SABUL flow, such as the rate of the source's disk.
    pub rate_max: Rate,
    /// Receive buffer in front of the disk, in bytes.
    pub socket_bytes_max: u64,
}

impl BesidePlan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        settings.check(name)
    }
}

/// Keys of the file of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    vary: Variable,
    values: Vec<String>,
    from: String,
    till: String,
    series: Vec<SeriesSettings>,
    #[serde(default)]
    paper: Vec<PaperNumbers>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesSettings {
    name: String,
    label: String,
    #[serde(default)]
    panel: String,
    link: String,
    rtt: Option<String>,
    mode: String,
    tcp: Option<String>,
    flows: Option<u32>,
    source: Option<String>,
    socket: Option<String>,
}

impl Settings {
    fn check(self, name: &str) -> Result<BesidePlan, String> {
        let value = |text: &String| match self.vary {
            Variable::Queue => text.parse().map_err(|_| format!("invalid number {text:?}")),
            Variable::Rtt => Ok(duration(text)?.as_nanos() as u64),
            Variable::Disk => Ok(rate(text)?.as_bps()),
        };
        let values = self.values.iter().map(value);
        let values: Vec<u64> = values.collect::<Result<_, String>>()?;
        let measured = [duration(&self.from)?, duration(&self.till)?];
        if measured[0] >= measured[1] || values.first().is_none_or(|value| *value == 0) {
            return Err("`from` must be before `till`, and `values` above zero".into());
        }
        let series = self.series.into_iter().map(|one| one.check(self.vary));
        Ok(BesidePlan {
            name: name.into(),
            title: self.title,
            vary: self.vary,
            values,
            measured,
            series: series.collect::<Result<_, _>>()?,
            papers: self.paper,
        })
    }
}

impl SeriesSettings {
    fn check(self, vary: Variable) -> Result<Series, String> {
        let mode = match self.mode.as_str() {
            "paper" => Mode::Paper,
            "swift" => Mode::Swift,
            other => return Err(format!("unknown mode {other:?}; use paper or swift")),
        };
        let tcp = match self.tcp.as_deref() {
            None => None,
            Some("reno") => Some(Algorithm::Reno),
            Some("cubic") => Some(Algorithm::Cubic),
            Some("bbr") => Some(Algorithm::Bbr),
            Some(other) => return Err(format!("unknown TCP {other:?}; use reno, cubic or bbr")),
        };
        let is_beside = vary != Variable::Disk;
        let (has_tcp, has_disk) = (
            tcp.is_some(),
            self.source.is_some() && self.socket.is_some(),
        );
        let has_rtt = self.rtt.is_some() || vary == Variable::Rtt;
        if has_tcp != is_beside || has_disk == is_beside || !has_rtt {
            return Err(format!(
                "series {}: give `tcp`, or `source` and `socket` where disks vary; and `rtt` unless it varies",
                self.name
            ));
        }
        let link = rate(&self.link)?;
        Ok(Series {
            name: self.name,
            label: self.label,
            panel: self.panel,
            link,
            rtt: self.rtt.as_deref().map_or(Ok(Duration::ZERO), duration)?,
            mode,
            tcp: tcp.map(|tcp| (tcp, self.flows.unwrap_or(1).clamp(1, FLOWS_MAX))),
            rate_max: self.source.as_deref().map_or(Ok(link), rate)?,
            socket_bytes_max: self.socket.as_deref().map_or(Ok(0), bytes)?,
        })
    }
}

/// Limit of the flows of each kind.
const FLOWS_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        vary = "queue"
        values = ["10", "50"]
        from = "1s"
        till = "2s"
        series = [{ name = "a", label = "A", link = "10Mb/s", rtt = "1ms", mode = "paper", tcp = "reno" }]
    "#;

    #[test]
    fn valid_plan_is_parsed() {
        let plan = BesidePlan::parse("p", PLAN).unwrap();
        assert_eq!((plan.values, plan.series.len()), (vec![10, 50], 1));
        assert_eq!(plan.series[0].tcp, Some((Algorithm::Reno, 1)));
    }

    #[test]
    fn invalid_plan_is_rejected() {
        for (from, to) in [
            ("\"2s\"", "\"1s\""),
            ("\"10\"", "\"ten\""),
            ("reno", "vegas"),
            ("paper", "scissors"),
            ("rtt = \"1ms\", ", ""),
            ("tcp = \"reno\"", "source = \"1Gb/s\", socket = \"1MB\""),
        ] {
            assert!(
                BesidePlan::parse("p", &PLAN.replace(from, to)).is_err(),
                "{to}"
            );
        }
    }
}
