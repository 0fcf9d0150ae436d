//! Plans of figures of latencies.
//!
//! A [`LatencyPlan`] has a path, a message stream, loss rates (points) and [`Series`] (curves). A
//! [`Carrier`] is the protocol of a series: a code of `proto::fec`, RBUDP or a model of TCP.
//! [`LatencyPlan::parse`] reads TOML and refuses values out of range. Losses are in parts per
//! billion, and lengths in bytes. `simulate` computes the table of a plan.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_proto::fec::Code;
use serde::Deserialize;

use crate::file::{self, PathSettings};
use crate::quantity;

/// Plan of a figure.
#[derive(Clone, Debug)]
pub struct LatencyPlan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Packet loss rates in parts per billion, in ascending order.
    pub losses_ppb: Vec<u64>,
    /// Number of messages of each point.
    pub messages: u64,
    /// Time between messages.
    pub every: Duration,
    /// Length of a message, in bytes.
    pub len: u32,
    /// Rate of the link.
    pub link: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Size of the link's queue, in bytes.
    pub queue_bytes_max: u64,
    /// Curves.
    pub series: Vec<Series>,
}

/// Curve of a figure.
#[derive(Clone, Debug)]
pub struct Series {
    /// Prefix of the columns of the series.
    pub name: String,
    /// Label in the legend.
    pub label: String,
    /// Protocol of the messages.
    pub carrier: Carrier,
}

/// Protocol of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Message stream with the given code. A block waits for further messages for this long.
    Fec(Code, Duration),
    /// RBUDP. Messages of this time span form one object, planned for this many rounds.
    Rbudp(Duration, u32),
    /// TCP, as modeled by [`super::tcp`].
    Tcp,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    loss: Vec<String>,
    messages: u64,
    every: String,
    len: u32,
    path: PathSettings,
    series: Vec<SeriesSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesSettings {
    name: String,
    label: String,
    code: Option<String>,
    linger: Option<String>,
    delay: Option<String>,
    blasts: Option<u32>,
}

impl LatencyPlan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        let losses = settings.loss.iter().map(|text| quantity::chance_ppb(text));
        let losses_ppb = losses.collect::<Result<Vec<_>, _>>()?;
        let (link, rtt, queue_bytes_max) = settings.path.check()?;
        let series = settings.series.into_iter().map(SeriesSettings::check);
        let plan = Self {
            name: name.into(),
            title: settings.title,
            losses_ppb,
            messages: settings.messages,
            every: quantity::duration(&settings.every)?,
            len: settings.len,
            link,
            rtt,
            queue_bytes_max,
            series: series.collect::<Result<_, _>>()?,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        if !self.losses_ppb.is_sorted() || self.losses_ppb.first().is_none_or(|loss| *loss == 0) {
            return Err("`loss` must be above zero and in ascending order".into());
        }
        if self.messages == 0 || self.len == 0 || self.len > LEN_MAX || self.every.is_zero() {
            return Err(format!(
                "`messages` and `every` must be above zero, and `len` from 1 to {LEN_MAX}"
            ));
        }
        Ok(())
    }
}

impl SeriesSettings {
    fn check(self) -> Result<Series, String> {
        let time = |text: &Option<String>, default| {
            text.as_deref().map_or(Ok(default), quantity::duration)
        };
        let carrier = match (self.code, &self.delay) {
            (Some(code), None) => Carrier::Fec(
                code.parse().map_err(|why| format!("{code}: {why}"))?,
                time(&self.linger, LINGER)?,
            ),
            (None, Some(delay)) => {
                Carrier::Rbudp(quantity::duration(delay)?, self.blasts.unwrap_or(1))
            }
            (None, None) => Carrier::Tcp,
            (Some(_), Some(_)) => {
                return Err(format!(
                    "series {}: give either `code` (a message stream) or `delay` (RBUDP), not both",
                    self.name
                ));
            }
        };
        Ok(Series {
            name: self.name,
            label: self.label,
            carrier,
        })
    }
}

/// Default time that a block waits for further messages.
const LINGER: Duration = Duration::from_millis(2);
/// Largest message that fits in a datagram, in bytes.
const LEN_MAX: u32 = 1400;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        loss = ["0.1%", "1%"]
        messages = 10
        every = "1ms"
        len = 200
        path = { rate = "100Mb/s", rtt = "100ms", queue = "1MiB" }
        series = [{ name = "a", label = "A", code = "xor:3" }, { name = "b", label = "B" }]
    "#;

    #[test]
    fn valid_plan_is_parsed() {
        let plan = LatencyPlan::parse("p", PLAN).unwrap();
        assert_eq!(plan.losses_ppb, [1_000_000, 10_000_000]);
        let carriers = [plan.series[0].carrier, plan.series[1].carrier];
        assert_eq!(carriers, [Carrier::Fec(Code::Xor(3), LINGER), Carrier::Tcp]);
    }

    #[test]
    fn invalid_plan_is_rejected() {
        for (from, to) in [
            ("\"0.1%\", \"1%\"", "\"1%\", \"0.1%\""),
            ("messages = 10", "messages = 0"),
            ("len = 200", "len = 2000"),
            ("xor:3", "xor:0"),
            ("code = \"xor:3\"", "code = \"xor:3\", delay = \"1s\""),
            ("every", "evry"),
        ] {
            assert!(
                LatencyPlan::parse("p", &PLAN.replace(from, to)).is_err(),
                "{to}"
            );
        }
    }
}
