//! Plans of contests, in TOML: figures that measure flows beside each other in real time.
//!
//! A [`ContestPlan`] has one [`Measurement`]: TCP's share beside another flow, goodput over time,
//! small transfers beside large ones, or single transfers. `Settings` is the text of a file. It
//! becomes a plan only after its checks, so the measurement can rely on every number.

use std::path::PathBuf;
use std::time::Duration;

use lighthaul_base::Rate;
use serde::Deserialize;

use super::flow::{Flow, FlowProtocol};
use super::shared_link::SharedLink;
use crate::file;
use crate::paper::PaperNumbers;
use crate::quantity::{bytes, duration, rate};

/// Plan of a figure.
#[derive(Clone, Debug)]
pub struct ContestPlan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Measurement.
    pub measurement: Measurement,
    /// Numbers of the paper.
    pub papers: Vec<PaperNumbers>,
}

/// Measurement of a contest.
#[derive(Clone, Debug)]
pub enum Measurement {
    /// TCP's throughput in percent of its fair share, over the round-trip time.
    Share(Share),
    /// Goodput of each flow, over time.
    Course(Course),
    /// Duration of small transfers, over the number of competing flows.
    Mice(Mice),
    /// Goodput and loss of RBUDP transfers, over the send rate.
    Trials(Trials),
}

/// Measurement of one TCP flow beside another flow.
#[derive(Clone, Debug)]
pub struct Share {
    /// Round-trip times of the points.
    pub rtts: Vec<Duration>,
    /// Start of the measurement.
    pub from: Duration,
    /// End of the measurement.
    pub till: Duration,
    /// Curves, each with the link's rate, the TCP flow and the competing flow.
    pub curves: Vec<(Curve, Rate, [FlowProtocol; 2])>,
    queue_packets_min: u32,
}

/// Measurement of flows over time, on one or several links.
#[derive(Clone, Debug)]
pub struct Course {
    /// Time between points.
    pub interval: Duration,
    /// End of the measurement.
    pub till: Duration,
    /// Links.
    pub links: Vec<SharedLink>,
    /// Curves, each with the index of its link.
    pub curves: Vec<(Curve, usize, Flow)>,
}

/// Measurement of small transfers that start at regular intervals.
#[derive(Clone, Debug)]
pub struct Mice {
    /// Link.
    pub link: SharedLink,
    /// Numbers of flows beside the transfers, one per point.
    pub crowds: Vec<u32>,
    /// Number of transfers.
    pub transfers: u32,
    /// Size of each transfer, in bytes.
    pub bytes: u64,
    /// Time between the starts of two transfers.
    pub every: Duration,
    /// Congestion control of the transfers' TCP.
    pub congestion: String,
    /// Curves, each with the protocol of the flows beside the transfers.
    pub curves: Vec<(Curve, FlowProtocol)>,
}

/// Measurement of single transfers between two hosts joined by a veth pair.
#[derive(Clone, Debug)]
pub struct Trials {
    /// Send rates of the points, in bits of the object per second.
    pub rates: Vec<Rate>,
    /// Size of the object, in bytes.
    pub bytes: u64,
    /// Number of repetitions; the figure shows the median.
    pub runs: u32,
    /// Curves.
    pub curves: Vec<(Curve, Trial)>,
}

/// Conditions at the receiver of a transfer.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Protocol that carries the object.
    pub protocol: TrialProtocol,
    /// Longest IP packet in bytes.
    pub mtu: u32,
    /// Number of tasks that load the receiver's core with computation and memory accesses.
    pub tasks: u32,
    /// Size of the receiver's socket buffer in bytes; `None` for the size that a copy requests.
    pub socket_bytes: Option<usize>,
    /// Destination of the object.
    pub target: Target,
}

/// Protocol of a transfer at a fixed rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialProtocol {
    /// RBUDP.
    Rbudp,
    /// RBUDP+, with feedback.
    RbudpPlus,
    /// SABUL without its rate control.
    Sabul,
}

/// Destination of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Memory: the object is copied and discarded.
    Memory,
    /// File in the given directory.
    Folder(PathBuf),
}

/// Names of a curve.
#[derive(Clone, Debug, Deserialize)]
pub struct Curve {
    /// Column in the table.
    pub name: String,
    /// Label in the picture.
    pub label: String,
}

impl ContestPlan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        let measurements = [
            settings
                .share
                .map(|share| share.check().map(Measurement::Share)),
            settings
                .course
                .map(|course| course.check().map(Measurement::Course)),
            settings
                .mice
                .map(|mice| mice.check().map(Measurement::Mice)),
            settings
                .trials
                .map(|trials| trials.check().map(Measurement::Trials)),
        ];
        let mut measurements = measurements.into_iter().flatten();
        let (Some(measurement), None) = (measurements.next(), measurements.next()) else {
            return Err(
                "a contest needs exactly one of `share`, `course`, `mice` and `trials`".into(),
            );
        };
        let measurement = measurement?;
        Ok(Self {
            name: name.into(),
            title: settings.title,
            measurement,
            papers: settings.paper,
        })
    }
}

impl Share {
    /// Returns the link of a curve at one point.
    pub fn link(&self, rate: Rate, rtt: Duration) -> SharedLink {
        SharedLink {
            rate,
            rtt,
            queue_packets_min: self.queue_packets_min,
        }
    }
}

/// Keys of the file of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    share: Option<ShareSettings>,
    course: Option<CourseSettings>,
    mice: Option<MiceSettings>,
    trials: Option<TrialsSettings>,
    #[serde(default)]
    paper: Vec<PaperNumbers>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShareSettings {
    rtts: Vec<String>,
    from: String,
    till: String,
    queue_packets: u32,
    curve: Vec<ShareCurve>,
}

#[derive(Debug, Deserialize)]
struct ShareCurve {
    #[serde(flatten)]
    curve: Curve,
    rate: String,
    tcp: String,
    beside: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CourseSettings {
    interval: String,
    till: String,
    link: Vec<SharedLinkSettings>,
    curve: Vec<CourseCurve>,
}

#[derive(Debug, Deserialize)]
struct CourseCurve {
    #[serde(flatten)]
    curve: Curve,
    flow: String,
    start: String,
    #[serde(default)]
    link: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MiceSettings {
    link: SharedLinkSettings,
    crowds: Vec<u32>,
    transfers: u32,
    size: String,
    every: String,
    tcp: String,
    curve: Vec<MiceCurve>,
}

#[derive(Debug, Deserialize)]
struct MiceCurve {
    #[serde(flatten)]
    curve: Curve,
    beside: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialsSettings {
    rates: Vec<String>,
    object: String,
    runs: u32,
    curve: Vec<TrialCurve>,
}

#[derive(Debug, Deserialize)]
struct TrialCurve {
    #[serde(flatten)]
    curve: Curve,
    protocol: Option<TrialProtocol>,
    mtu: Option<u32>,
    #[serde(default)]
    tasks: u32,
    socket: Option<String>,
    folder: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SharedLinkSettings {
    rate: String,
    rtt: String,
    queue_packets: u32,
}

impl ShareSettings {
    fn check(self) -> Result<Share, String> {
        let rtts = self.rtts.iter().map(|rtt| duration(rtt));
        let curves = self.curve.into_iter().map(|of| {
            let kinds = [of.tcp.parse()?, of.beside.parse()?];
            Ok((of.curve, rate(&of.rate)?, kinds))
        });
        let (from, till) = (duration(&self.from)?, duration(&self.till)?);
        if from >= till || till > TIME_MAX {
            return Err(format!(
                "`from` must be before `till`, and `till` at most {TIME_MAX:?}"
            ));
        }
        Ok(Share {
            rtts: rtts.collect::<Result<_, _>>()?,
            from,
            till,
            curves: curves.collect::<Result<_, String>>()?,
            queue_packets_min: queue(self.queue_packets)?,
        })
    }
}

impl CourseSettings {
    fn check(self) -> Result<Course, String> {
        let links = self.link.into_iter().map(SharedLinkSettings::check);
        let links: Vec<SharedLink> = links.collect::<Result<_, _>>()?;
        let curves = self.curve.into_iter().map(|of| {
            if of.link >= links.len() {
                return Err(format!(
                    "curve {}: `link` is not the index of a link",
                    of.curve.name
                ));
            }
            let (protocol, start) = (of.flow.parse()?, duration(&of.start)?);
            Ok((of.curve, of.link, Flow { protocol, start }))
        });
        let curves = curves.collect::<Result<_, String>>()?;
        let (interval, till) = (duration(&self.interval)?, duration(&self.till)?);
        if interval < INTERVAL_MIN || till > TIME_MAX {
            return Err(format!(
                "`interval` must be at least {INTERVAL_MIN:?}, and `till` at most {TIME_MAX:?}"
            ));
        }
        Ok(Course {
            interval,
            till,
            links,
            curves,
        })
    }
}

impl MiceSettings {
    fn check(self) -> Result<Mice, String> {
        let curves = self.curve.into_iter();
        let curves = curves.map(|of| Ok((of.curve, of.beside.parse()?)));
        let most = self.crowds.iter().max().copied().unwrap_or(0);
        if !(1..=MICE_MAX).contains(&self.transfers) || most > CROWD_MAX {
            return Err(format!(
                "`transfers` must be from 1 to {MICE_MAX}, and each of `crowds` at most {CROWD_MAX}"
            ));
        }
        Ok(Mice {
            link: self.link.check()?,
            crowds: self.crowds,
            transfers: self.transfers,
            bytes: bytes(&self.size)?,
            every: duration(&self.every)?,
            congestion: self.tcp,
            curves: curves.collect::<Result<_, String>>()?,
        })
    }
}

impl TrialsSettings {
    fn check(self) -> Result<Trials, String> {
        let rates = self.rates.iter().map(|text| rate(text));
        let curves = self.curve.into_iter().map(TrialCurve::check);
        if !(1..=RUNS_MAX).contains(&self.runs) {
            return Err(format!("`runs` must be from 1 to {RUNS_MAX}"));
        }
        Ok(Trials {
            rates: rates.collect::<Result<_, _>>()?,
            bytes: bytes(&self.object)?,
            runs: self.runs,
            curves: curves.collect::<Result<_, _>>()?,
        })
    }
}

impl TrialCurve {
    fn check(self) -> Result<(Curve, Trial), String> {
        if self.tasks > TASKS_MAX {
            return Err(format!("`tasks` must be at most {TASKS_MAX}"));
        }
        let mtu = self.mtu.unwrap_or(MTU);
        if !(MTU..=MTU_MAX).contains(&mtu) {
            return Err(format!("`mtu` must be from {MTU} to {MTU_MAX}"));
        }
        let socket = self.socket.as_deref().map(bytes).transpose()?;
        let trial = Trial {
            protocol: self.protocol.unwrap_or(TrialProtocol::Rbudp),
            mtu,
            tasks: self.tasks,
            socket_bytes: socket.map(|bytes| bytes as usize),
            target: self.folder.map_or(Target::Memory, Target::Folder),
        };
        Ok((self.curve, trial))
    }
}

impl SharedLinkSettings {
    fn check(self) -> Result<SharedLink, String> {
        Ok(SharedLink {
            rate: rate(&self.rate)?,
            rtt: duration(&self.rtt)?,
            queue_packets_min: queue(self.queue_packets)?,
        })
    }
}

fn queue(packets: u32) -> Result<u32, String> {
    if (1..=QUEUE_MAX).contains(&packets) {
        return Ok(packets);
    }
    Err(format!("`queue_packets` must be from 1 to {QUEUE_MAX}"))
}

const TIME_MAX: Duration = Duration::from_mins(10);
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const QUEUE_MAX: u32 = 100_000;
/// Maximum number of transfers; each transfer needs one or two threads.
const MICE_MAX: u32 = 1000;
const CROWD_MAX: u32 = 20;
const RUNS_MAX: u32 = 100;
const TASKS_MAX: u32 = 64;
const MTU: u32 = 1500;
const MTU_MAX: u32 = 9000;

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: &str = r#"
        title = "t"
        [share]
        rtts = ["1ms", "10ms"]
        from = "1s"
        till = "2s"
        queue_packets = 10
        curve = [{ name = "a", label = "A", rate = "10Mb/s", tcp = "reno", beside = "sabul" }]
    "#;

    #[test]
    fn valid_plan_is_parsed() {
        let plan = ContestPlan::parse("p", SHARE).unwrap();
        let Measurement::Share(share) = plan.measurement else {
            panic!("{plan:?}");
        };
        assert_eq!(share.rtts, [1, 10].map(Duration::from_millis));
        let [tcp, beside] = &share.curves[0].2;
        assert_eq!(*tcp, FlowProtocol::Tcp("reno".into()));
        assert_eq!(beside, &"sabul".parse().unwrap());
    }

    #[test]
    fn invalid_plan_is_rejected() {
        for (from, to) in [
            ("\"2s\"", "\"1s\""),
            ("\"2s\"", "\"2000s\""),
            ("reno", "vegas"),
            ("queue_packets = 10", "queue_packets = 0"),
            ("[share]", "[shares]"),
            ("10Mb/s", "fast"),
        ] {
            let text = SHARE.replace(from, to);
            assert!(ContestPlan::parse("p", &text).is_err(), "{to}");
        }
    }
}
