//! What a figure of latencies is made of.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::position::fault_in;
use lighthaul_proto::fec::Code;
use serde::Deserialize;

use crate::error::Result;
use crate::file::{PathSettings, read};
use crate::quantity;

/// A figure to be.
#[derive(Clone, Debug)]
pub struct LatencyPlan {
    /// What its files are called.
    pub name: String,
    /// What stands above it.
    pub title: String,
    /// Datagrams lost, of a thousand million, in ascending order.
    pub losses_ppb: Vec<u64>,
    /// Messages of each point.
    pub messages: u64,
    /// The time from one to the next.
    pub every: Duration,
    /// Bytes of each.
    pub len: u32,
    /// The link's rate.
    pub link: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Bytes of the link's queue.
    pub queue_bytes_max: u64,
    /// The curves.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// What its columns are called.
    pub name: String,
    /// What the legend calls it.
    pub label: String,
    /// Who carries its messages.
    pub carrier: Carrier,
}

/// Who carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A message stream with this code, whose blocks wait so long.
    Fec(Code, Duration),
    /// RBUDP, those of so long together, planned for so many round trips.
    Rbudp(Duration, u32),
    /// TCP, as [`super::tcp`] sketches it.
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
    /// Reads the plan in a file; the figure is called as the file is.
    pub fn read(file: &Path) -> Result<Self> {
        read(file, Self::parse)
    }

    /// Reads a plan.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, String> {
        let settings: Settings =
            toml::from_str(text).map_err(|why| fault_in(text, why.span(), why.message()))?;
        let losses = settings.loss.iter().map(|text| quantity::chance_ppb(text));
        let losses_ppb = losses.collect::<std::result::Result<Vec<_>, _>>()?;
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
            series: series.collect::<std::result::Result<_, _>>()?,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if !self.losses_ppb.is_sorted() || self.losses_ppb.first().is_none_or(|loss| *loss == 0) {
            return Err("loss must be above zero and in ascending order".into());
        }
        if self.messages == 0 || self.len == 0 || self.len > LEN_MAX || self.every.is_zero() {
            return Err(format!(
                "give messages, of 1 to {LEN_MAX} bytes, and the time from one to the next"
            ));
        }
        Ok(())
    }
}

impl SeriesSettings {
    fn check(self) -> std::result::Result<Series, String> {
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
                    "series {}: `code` is of fec, `delay` of rbudp",
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

/// How long a block waits unless a plan says.
const LINGER: Duration = Duration::from_millis(2);
/// What fits in a datagram.
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
    fn a_plan_is_read() {
        let plan = LatencyPlan::parse("p", PLAN).unwrap();
        assert_eq!(plan.losses_ppb, [1_000_000, 10_000_000]);
        let carriers = [plan.series[0].carrier, plan.series[1].carrier];
        assert_eq!(carriers, [Carrier::Fec(Code::Xor(3), LINGER), Carrier::Tcp]);
    }

    #[test]
    fn a_plan_that_makes_no_sense_is_refused() {
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
