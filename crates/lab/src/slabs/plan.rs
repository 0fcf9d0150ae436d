//! Plans of figures of slabs.
//!
//! A [`SlabPlan`] is one [`Experiment`] with the values of its variable (points) and its series
//! (curves). The experiment decides the meaning of both: bytes, gateways, nanoseconds or Mb/s.
//! [`SlabPlan::parse`] reads TOML and refuses values out of range. Lengths are in bytes. The
//! simulations are in the other files of this directory.

use std::time::Duration;

use lighthaul_base::Rate;
use serde::Deserialize;

use crate::file::{self, PathSettings};
use crate::quantity;

/// Plan of a figure.
#[derive(Clone, Debug)]
pub struct SlabPlan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Experiment.
    pub kind: Experiment,
    /// Values of the variable: bytes of a slab or buffer, number of gateways, or offered load in
    /// Mb/s.
    pub values: Vec<u64>,
    /// Curves: bytes of a buffer, or nanoseconds until a channel opens. Empty for experiments with
    /// fixed curves.
    pub series: Vec<u64>,
    /// Duration of each point.
    pub time: Duration,
    /// Rate of the channel.
    pub rate: Rate,
    /// Round-trip time of the channel.
    pub rtt: Duration,
    /// Size of the channel's queue, in bytes.
    pub queue_bytes_max: u64,
    /// Length of a packet, in bytes.
    pub packet_len: u32,
    /// Size of a slab in bytes, if that is not the variable.
    pub slab: u64,
}

/// Experiment of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// Effect of the sizes of slabs and buffers on utilization and delays.
    Size,
    /// Effect of a buffer on the utilization of a channel that opens late.
    Provisioning,
    /// Gateways that take turns, compared with gateways that each send at a part of the rate.
    Cluster,
    /// Time to form and to send a slab, over the offered load (SLaBS, figure 3c).
    Load,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    kind: Experiment,
    values: Vec<String>,
    #[serde(default)]
    series: Vec<String>,
    time: String,
    packet: u32,
    slab: String,
    path: PathSettings,
}

impl SlabPlan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let settings: Settings = file::settings(text)?;
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
                .collect::<Result<_, _>>()?,
            series: settings
                .series
                .iter()
                .map(series)
                .collect::<Result<_, _>>()?,
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

    fn check(&self) -> Result<(), String> {
        if !self.values.is_sorted() || self.values.first().is_none_or(|value| *value == 0) {
            return Err("`values` must be above zero and in ascending order".into());
        }
        let has_curves = matches!(self.kind, Experiment::Size | Experiment::Provisioning);
        if has_curves == self.series.is_empty() {
            return Err(
                "the kinds `size` and `provisioning` need `series`, and others have none".into(),
            );
        }
        if self.time < Duration::from_secs(1) || !(500..=9000).contains(&self.packet_len) {
            return Err("`time` must be at least 1s, and `packet` from 500 to 9000 bytes".into());
        }
        if self.kind == Experiment::Cluster && self.values.iter().any(|count| *count > 32) {
            return Err("`values` must be at most 32 gateways".into());
        }
        Ok(())
    }
}

impl Experiment {
    fn value(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Size | Self::Provisioning => quantity::bytes(text),
            Self::Cluster => text
                .parse()
                .map_err(|_| format!("invalid number of gateways {text}")),
            Self::Load => quantity::rate(text).map(|rate| rate.as_bps() / 1_000_000),
        }
    }

    fn of_series(self, text: &str) -> Result<u64, String> {
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
    fn valid_plan_is_parsed() {
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
    fn invalid_plan_is_rejected() {
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
