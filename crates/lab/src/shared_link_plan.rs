//! Figures of SABUL flows on one link: their utilization, and their shares over time.
//!
//! A [`SharedLinkPlan`] is read from TOML and simulated in virtual time. If the link varies, each
//! flow runs alone; over time, all flows share one link. Queue, packets and control period are
//! those of the SABUL paper, section 4.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_proto::sabul::{Config, Framing, Memory, Mode, Receiver, Sender};
use lighthaul_sim::{FlowConfig, LinkConfig, Network, RouteConfig, Trace};
use serde::Deserialize;

use crate::file;
use crate::paper::PaperNumbers;
use crate::quantity::{self, rate};
use crate::table::{SIMULATION, Table};

/// Plan of a figure with flows over one link.
#[derive(Clone, Debug)]
pub struct SharedLinkPlan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Variable of the horizontal axis.
    pub vary: Variable,
    /// Flows, one curve each. If the link varies, each flow runs alone; over time, all share the link.
    pub flows: Vec<FlowPlan>,
    /// Numbers of the paper.
    pub papers: Vec<PaperNumbers>,
    till: Duration,
    interval: Duration,
    /// Largest flow window, as a multiple of the size that the paper recommends.
    window: u32,
}

/// Variable of the horizontal axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// Rate of the link. A point is the utilization in percent from 100 s after the start on.
    Link(Vec<Rate>),
    /// Time. A point is a flow's goodput in Mb/s during the interval before it.
    Time(Rate),
}

/// Flow of a figure.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Prefix of the columns of the series.
    pub name: String,
    /// Label in the legend.
    pub label: String,
    mode: Mode,
    rtt: Duration,
    start: Duration,
    rate: Rate,
}

impl SharedLinkPlan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        settings.check(name)
    }

    /// Simulates every point of the plan.
    pub fn simulate(&self) -> Table {
        let rows = match &self.vary {
            Variable::Link(rates) => rates.iter().map(|rate| self.utilizations(*rate)).collect(),
            Variable::Time(link) => self.goodputs(*link),
        };
        let first = match self.vary {
            Variable::Link(_) => "link_mbps",
            Variable::Time(_) => "seconds",
        };
        let columns = self.flows.iter();
        let columns = columns.map(|flow| format!("{}{SIMULATION}", flow.name));
        Table {
            columns: std::iter::once(first.into()).chain(columns).collect(),
            rows,
        }
    }

    /// Returns the plan of the same flows until `till`, or until its own end if that is earlier.
    #[must_use]
    pub fn shortened(&self, till: Duration) -> Self {
        let till = till.min(self.till);
        Self {
            till: self.interval * intervals(till, self.interval),
            ..self.clone()
        }
    }

    /// Simulates each flow alone on `link`. Returns the row of utilizations in percent.
    pub fn utilizations(&self, link: Rate) -> Vec<Option<f64>> {
        let (from, till) = (Instant::ZERO + FROM, Instant::ZERO + self.till);
        let share = |flow: &FlowPlan| {
            let trace = self.trace(link, std::slice::from_ref(flow));
            let wire = trace.goodput(0, from, till).scaled(WIRE_LEN, PACKET_LEN);
            Some(100.0 * wire.as_bps() as f64 / link.as_bps() as f64)
        };
        let shares = self.flows.iter().map(share);
        std::iter::once(Some(link.as_mbps_f64()))
            .chain(shares)
            .collect()
    }

    fn goodputs(&self, link: Rate) -> Vec<Vec<Option<f64>>> {
        let trace = self.trace(link, &self.flows);
        let row = |nth: u32| {
            let end = self.interval * nth;
            let (from, till) = (
                Instant::ZERO + end.saturating_sub(self.interval),
                Instant::ZERO + end,
            );
            let goodput = |flow| Some(trace.goodput(flow, from, till).as_mbps_f64());
            let goodputs = (0..self.flows.len()).map(goodput);
            std::iter::once(Some(end.as_secs_f64()))
                .chain(goodputs)
                .collect()
        };
        (1..=intervals(self.till, self.interval)).map(row).collect()
    }

    /// Simulates `flows` on a link. Its queue holds the product of the rate and the longest
    /// round-trip time, and at least ten packets (section 4 of the paper).
    fn trace(&self, link: Rate, flows: &[FlowPlan]) -> Trace {
        let rtt_max = flows.iter().map(|flow| flow.rtt).max();
        let product = link.bytes_in(rtt_max.unwrap_or_default());
        let config = LinkConfig {
            rate: Some(link),
            queue_bytes_max: product.max(u64::from(10 * WIRE_LEN)),
            ..LinkConfig::default()
        };
        let mut network = Network::new([config], SEED);
        for flow in flows {
            let start = Instant::ZERO + flow.start;
            let config = flow.config(link, self.window);
            let (left, right) = (
                Sender::new(start, config, SEED),
                Receiver::new(start, config, SEED),
            );
            network.add(left, right, &flow.place(start));
        }
        Trace::run(&mut network, self.interval, Instant::ZERO + self.till)
    }
}

impl FlowPlan {
    /// Returns the name of the flow's mode.
    pub const fn mode_name(&self) -> &'static str {
        match self.mode {
            Mode::Paper => "paper's rules",
            Mode::Swift => "second mode",
            Mode::Fixed => "fixed rate",
        }
    }

    fn config(&self, link: Rate, window: u32) -> Config {
        let good = link.bytes_in(self.rtt + SYN) / u64::from(WIRE_LEN);
        Config {
            framing: Framing {
                object_len: u64::from(PACKET_LEN) << 30,
                packet_len: PACKET_LEN,
                overhead_len: OVERHEAD_LEN,
            },
            mode: self.mode,
            memory: Memory::new(self.rate, self.rtt),
            rate_max: Rate::UNLIMITED,
            burst: None,
            stream: 0,
            window_max: (good as u32).max(10).saturating_mul(window),
            ranges_max: 1 << 20,
        }
    }

    fn place(&self, start: Instant) -> FlowConfig {
        FlowConfig {
            start,
            there: RouteConfig {
                access: self.rtt / 2,
                links: vec![0],
            },
            stream_delay: self.rtt / 2,
            overhead_len: OVERHEAD_LEN,
            ..FlowConfig::default()
        }
    }
}

/// Keys of the file of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    crowd: SharedLinkSettings,
    flow: Vec<FlowSettings>,
    #[serde(default)]
    paper: Vec<PaperNumbers>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SharedLinkSettings {
    /// Rates of the links of a utilization figure.
    links: Option<Vec<String>>,
    /// Rate of the link of a figure over time.
    link: Option<String>,
    till: String,
    interval: String,
    window: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowSettings {
    name: String,
    label: String,
    mode: String,
    rtt: String,
    start: Option<String>,
    rate: String,
}

impl Settings {
    fn check(self, name: &str) -> Result<SharedLinkPlan, String> {
        let vary = match (self.crowd.links, self.crowd.link) {
            (Some(links), None) => {
                let links = links.iter().map(|link| rate(link));
                Variable::Link(links.collect::<Result<_, _>>()?)
            }
            (None, Some(link)) => Variable::Time(rate(&link)?),
            _ => return Err("`crowd` needs either `links` or `link`".into()),
        };
        let till = quantity::duration(&self.crowd.till)?;
        let interval = quantity::duration(&self.crowd.interval)?;
        let is_whole = interval >= INTERVAL_MIN && interval * intervals(till, interval) == till;
        if !is_whole || till <= FROM {
            return Err(format!(
                "`till` must be more than {FROM:?}, and a multiple of `interval`, which is at least {INTERVAL_MIN:?}"
            ));
        }
        let flows = self.flow.into_iter().map(FlowSettings::check);
        Ok(SharedLinkPlan {
            name: name.into(),
            title: self.title,
            vary,
            flows: flows.collect::<Result<_, _>>()?,
            papers: self.paper,
            till,
            interval,
            window: self.crowd.window,
        })
    }
}

impl FlowSettings {
    fn check(self) -> Result<FlowPlan, String> {
        let mode = match self.mode.as_str() {
            "paper" => Mode::Paper,
            "swift" => Mode::Swift,
            other => {
                return Err(format!(
                    "flow {}: unknown mode {other:?}; use paper or swift",
                    self.name
                ));
            }
        };
        let start = self.start.as_deref().map(quantity::duration).transpose()?;
        Ok(FlowPlan {
            mode,
            rtt: quantity::duration(&self.rtt)?,
            start: start.unwrap_or_default(),
            rate: rate(&self.rate)?,
            name: self.name,
            label: self.label,
        })
    }
}

/// Number of whole intervals in `time`.
const fn intervals(time: Duration, interval: Duration) -> u32 {
    (time.as_nanos() / interval.as_nanos()) as u32
}

/// Start of the utilization measurement.
const FROM: Duration = Duration::from_secs(100);
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// SABUL's control period.
const SYN: Duration = lighthaul_proto::sabul::config::SYN;
/// Length of a packet on the wire, in bytes: 28 of IP and UDP, 12 of SABUL's head, and the object's bytes.
const WIRE_LEN: u32 = 1500;
const OVERHEAD_LEN: u32 = 28;
const PACKET_LEN: u32 = 1460;
const SEED: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        crowd = { links = ["1Mb/s", "2Mb/s"], till = "110s", interval = "10s", window = 1 }
        flow = [{ name = "a", label = "A", mode = "paper", rtt = "10ms", rate = "1Mb/s" }]
    "#;

    #[test]
    fn simulation_fills_a_row_per_point() {
        let table = SharedLinkPlan::parse("p", PLAN).unwrap().simulate();
        assert_eq!(table.columns, ["link_mbps", "a_simulation"]);
        assert_eq!(table.rows.len(), 2);
        let share = table.number(2.0, "a_simulation").unwrap();
        assert!((90.0..100.1).contains(&share), "{share} %");
        let over_time = PLAN.replace("links = [\"1Mb/s\", \"2Mb/s\"]", "link = \"1Mb/s\"");
        let table = SharedLinkPlan::parse("p", &over_time).unwrap().simulate();
        assert_eq!((table.rows.len(), table.rows[0][0]), (11, Some(10.0)));
    }

    #[test]
    fn invalid_plan_is_rejected() {
        for (from, to) in [
            ("paper", "scissors"),
            ("110s", "90s"),
            ("\"110s\"", "110"),
            ("110s", "110"),
            ("interval = \"10s\"", "interval = \"7s\""),
            ("interval = \"10s\"", "interval = \"0\""),
            ("links", "link"),
            ("\"10ms\"", "\"soon\""),
            ("label", "lable"),
        ] {
            assert!(
                SharedLinkPlan::parse("p", &PLAN.replace(from, to)).is_err(),
                "{to}"
            );
        }
    }
}
