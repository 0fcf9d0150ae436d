//! What a figure of slabs is made of.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::position::fault_in;
use serde::Deserialize;

use crate::error::Result;
use crate::file::{PathSettings, read};
use crate::quantity;

/// A figure to be.
#[derive(Clone, Debug)]
pub struct SlabPlan {
    /// What its files are called.
    pub name: String,
    /// What stands above it.
    pub title: String,
    /// What is asked.
    pub kind: Kind,
    /// The points: bytes of a slab or of a buffer, gateways, or megabits a second that programs say.
    pub values: Vec<u64>,
    /// The curves: bytes of a buffer, or nanoseconds until a channel is open; those of the other kinds are fixed.
    pub series: Vec<u64>,
    /// How long each point lasts.
    pub time: Duration,
    /// The channel's rate.
    pub rate: Rate,
    /// Its round-trip time.
    pub rtt: Duration,
    /// Bytes of its queue.
    pub queue_bytes_max: u64,
    /// Bytes of a packet.
    pub packet_len: u32,
    /// Bytes of a slab, where that is not what varies.
    pub slab: u64,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What the sizes of slabs and buffers do to utilisation and delays.
    Size,
    /// What a buffer makes good of a channel that opens late.
    Provisioning,
    /// Gateways that take turns beside those that all send a part of the rate.
    Cluster,
    /// How slabs form and cross as more is offered (SLaBS, figure 3c).
    Load,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    kind: Kind,
    values: Vec<String>,
    #[serde(default)]
    series: Vec<String>,
    time: String,
    packet: u32,
    slab: String,
    path: PathSettings,
}

impl SlabPlan {
    /// Reads the plan in a file; the figure is called as the file is.
    pub fn read(file: &Path) -> Result<Self> {
        read(file, Self::parse)
    }

    /// Reads a plan.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, String> {
        let settings: Settings =
            toml::from_str(text).map_err(|why| fault_in(text, why.span(), why.message()))?;
        let (rate, rtt, queue_bytes_max) = settings.path.check()?;
        let kind = settings.kind;
        let value = |text: &String| kind.value(text);
        let series = |text: &String| kind.of_series(text);
        let plan = Self {
            name: name.into(),
            title: settings.title,
            kind,
            values: settings
                .values
                .iter()
                .map(value)
                .collect::<std::result::Result<_, _>>()?,
            series: settings
                .series
                .iter()
                .map(series)
                .collect::<std::result::Result<_, _>>()?,
            time: quantity::duration(&settings.time)?,
            rate,
            rtt,
            queue_bytes_max,
            packet_len: settings.packet,
            slab: quantity::bytes(&settings.slab)?,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if !self.values.is_sorted() || self.values.first().is_none_or(|value| *value == 0) {
            return Err("values must be above zero and in ascending order".into());
        }
        let has_curves = matches!(self.kind, Kind::Size | Kind::Provisioning);
        if has_curves == self.series.is_empty() {
            return Err(
                "`series` is of kinds `size` and `provisioning`, and they need some".into(),
            );
        }
        if self.time < Duration::from_secs(1) || !(500..=9000).contains(&self.packet_len) {
            return Err("give at least 1s, and packets of 500 to 9000 bytes".into());
        }
        if self.kind == Kind::Cluster && self.values.iter().any(|count| *count > 32) {
            return Err("a cluster has at most 32 gateways".into());
        }
        Ok(())
    }
}

impl Kind {
    fn value(self, text: &str) -> std::result::Result<u64, String> {
        match self {
            Self::Size | Self::Provisioning => quantity::bytes(text),
            Self::Cluster => text
                .parse()
                .map_err(|_| format!("{text} is no number of gateways")),
            Self::Load => quantity::rate(text).map(|rate| rate.as_bps() / 1_000_000),
        }
    }

    fn of_series(self, text: &str) -> std::result::Result<u64, String> {
        if self == Self::Provisioning {
            let time = quantity::duration(text)?.as_nanos();
            return u64::try_from(time).map_err(|_| format!("{text} is too long"));
        }
        quantity::bytes(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        kind = "provisioning"
        values = ["1MiB", "4MiB"]
        series = ["0s", "500ms"]
        time = "2s"
        packet = 1408
        slab = "1MiB"
        path = { rate = "100Mb/s", rtt = "100ms", queue = "1MiB" }
    "#;

    #[test]
    fn a_plan_is_read() {
        let plan = SlabPlan::parse("p", PLAN).unwrap();
        assert_eq!(plan.values, [1 << 20, 4 << 20]);
        assert_eq!(plan.series, [0, 500_000_000]);
        let load = PLAN
            .replace("provisioning", "load")
            .replace("series = [\"0s\", \"500ms\"]", "");
        let load = load.replace("[\"1MiB\", \"4MiB\"]", "[\"500Mb/s\"]");
        assert_eq!(SlabPlan::parse("p", &load).unwrap().values, [500]);
    }

    #[test]
    fn a_plan_that_makes_no_sense_is_refused() {
        for (from, to) in [
            ("\"1MiB\", \"4MiB\"", "\"4MiB\", \"1MiB\""),
            ("\"0s\", \"500ms\"", ""),
            ("packet = 1408", "packet = 14080"),
            ("time = \"2s\"", "time = \"2ms\""),
            ("provisioning", "cluster"),
        ] {
            assert!(
                SlabPlan::parse("p", &PLAN.replace(from, to)).is_err(),
                "{to}"
            );
        }
    }
}
