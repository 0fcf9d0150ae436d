//! What a figure of contests is made of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::position::fault_in;
use serde::Deserialize;

use super::field::Field;
use super::flow::{Flow, Kind};
use crate::error::Result;
use crate::file;
use crate::quantity::{bytes, duration, rate};

/// A figure to be.
#[derive(Clone, Debug)]
pub struct ContestPlan {
    /// What its files are called.
    pub name: String,
    /// What stands above it.
    pub title: String,
    /// What is measured.
    pub sort: Sort,
}

/// What is measured.
#[derive(Clone, Debug)]
pub enum Sort {
    /// TCP's part of its fair share, over the round-trip time.
    Share(Share),
    /// What each flow gets, over time.
    Course(Course),
    /// How long small transfers take, over the number of flows beside them.
    Mice(Mice),
    /// What transfers by RBUDP reach and lose, over the rate that they are sent at.
    Trials(Trials),
}

/// One flow of TCP beside another flow.
#[derive(Clone, Debug)]
pub struct Share {
    /// The points.
    pub rtts: Vec<Duration>,
    /// It is measured from then on.
    pub from: Duration,
    /// And till then.
    pub till: Duration,
    /// The curves, each with the link's rate, TCP's congestion control and who is beside it.
    pub curves: Vec<(Curve, Rate, [Kind; 2])>,
    queue_packets_min: u32,
}

/// Flows on links of their own, or together.
#[derive(Clone, Debug)]
pub struct Course {
    /// The time from one point to the next.
    pub interval: Duration,
    /// When it ends.
    pub till: Duration,
    /// The links.
    pub fields: Vec<Field>,
    /// The curves, each with the number of its link.
    pub curves: Vec<(Curve, usize, Flow)>,
}

/// Small transfers, one after the other begins.
#[derive(Clone, Debug)]
pub struct Mice {
    /// The link.
    pub field: Field,
    /// The points: how many flows are beside them.
    pub crowds: Vec<u32>,
    /// How many there are, and how large they are.
    pub transfers: u32,
    /// Bytes of each.
    pub bytes: u64,
    /// The time from one to the next.
    pub every: Duration,
    /// TCP's congestion control.
    pub congestion: String,
    /// The curves, each with who is beside them.
    pub curves: Vec<(Curve, Kind)>,
}

/// Transfers of an object between two hosts on a plain pair.
#[derive(Clone, Debug)]
pub struct Trials {
    /// The points: bits of the object sent each second.
    pub rates: Vec<Rate>,
    /// Bytes of the object.
    pub bytes: u64,
    /// How often each is repeated; the median counts.
    pub runs: u32,
    /// The curves.
    pub curves: Vec<(Curve, Trial)>,
}

/// How a transfer is received.
#[derive(Clone, Debug)]
pub struct Trial {
    /// By RBUDP+.
    pub feedback: bool,
    /// Tasks that are bound to processor and memory on the receiver's core.
    pub tasks: u32,
    /// The receiver's socket buffer, if it is not what a copy asks for.
    pub socket_bytes: Option<usize>,
    /// Where the object goes.
    pub target: Target,
}

/// Where an object goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nowhere: it is copied into memory and forgotten.
    Memory,
    /// To a file in this folder.
    Folder(PathBuf),
}

/// What a curve is called.
#[derive(Clone, Debug, Deserialize)]
pub struct Curve {
    /// In the table.
    pub name: String,
    /// In the picture.
    pub label: String,
}

impl ContestPlan {
    /// Reads the plan in a file; the figure is called as the file is.
    pub fn read(file: &Path) -> Result<Self> {
        file::read(file, Self::parse)
    }

    /// Reads a plan.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, String> {
        let settings: Settings =
            toml::from_str(text).map_err(|why| fault_in(text, why.span(), why.message()))?;
        let sorts = [
            settings.share.map(|share| share.check().map(Sort::Share)),
            settings
                .course
                .map(|course| course.check().map(Sort::Course)),
            settings.mice.map(|mice| mice.check().map(Sort::Mice)),
            settings
                .trials
                .map(|trials| trials.check().map(Sort::Trials)),
        ];
        let mut sorts = sorts.into_iter().flatten();
        let (Some(sort), None) = (sorts.next(), sorts.next()) else {
            return Err("a contest has one of `share`, `course`, `mice` and `trials`".into());
        };
        let sort = sort?;
        Ok(Self {
            name: name.into(),
            title: settings.title,
            sort,
        })
    }
}

impl Share {
    /// The link of a curve at one point.
    pub fn field(&self, rate: Rate, rtt: Duration) -> Field {
        Field {
            rate,
            rtt,
            queue_packets_min: self.queue_packets_min,
        }
    }
}

/// A plan as its file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    share: Option<ShareSettings>,
    course: Option<CourseSettings>,
    mice: Option<MiceSettings>,
    trials: Option<TrialsSettings>,
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
    link: Vec<FieldSettings>,
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
    link: FieldSettings,
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
    #[serde(default)]
    feedback: bool,
    #[serde(default)]
    tasks: u32,
    socket: Option<String>,
    folder: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldSettings {
    rate: String,
    rtt: String,
    queue_packets: u32,
}

impl ShareSettings {
    fn check(self) -> std::result::Result<Share, String> {
        let rtts = self.rtts.iter().map(|rtt| duration(rtt));
        let curves = self.curve.into_iter().map(|of| {
            let kinds = [of.tcp.parse()?, of.beside.parse()?];
            Ok((of.curve, rate(&of.rate)?, kinds))
        });
        let (from, till) = (duration(&self.from)?, duration(&self.till)?);
        if from >= till || till > TIME_MAX {
            return Err(format!(
                "`from` must be before `till`, at most {TIME_MAX:?}"
            ));
        }
        Ok(Share {
            rtts: rtts.collect::<std::result::Result<_, _>>()?,
            from,
            till,
            curves: curves.collect::<std::result::Result<_, String>>()?,
            queue_packets_min: queue(self.queue_packets)?,
        })
    }
}

impl CourseSettings {
    fn check(self) -> std::result::Result<Course, String> {
        let fields = self.link.into_iter().map(FieldSettings::check);
        let fields: Vec<Field> = fields.collect::<std::result::Result<_, _>>()?;
        let curves = self.curve.into_iter().map(|of| {
            if of.link >= fields.len() {
                return Err(format!("curve {}: there is no such link", of.curve.name));
            }
            let (kind, start) = (of.flow.parse()?, duration(&of.start)?);
            Ok((of.curve, of.link, Flow { kind, start }))
        });
        let curves = curves.collect::<std::result::Result<_, String>>()?;
        let (interval, till) = (duration(&self.interval)?, duration(&self.till)?);
        if interval < INTERVAL_MIN || till > TIME_MAX {
            return Err(format!(
                "`interval` must be at least {INTERVAL_MIN:?}, and `till` at most {TIME_MAX:?}"
            ));
        }
        Ok(Course {
            interval,
            till,
            fields,
            curves,
        })
    }
}

impl MiceSettings {
    fn check(self) -> std::result::Result<Mice, String> {
        let curves = self.curve.into_iter();
        let curves = curves.map(|of| Ok((of.curve, of.beside.parse()?)));
        let most = self.crowds.iter().max().copied().unwrap_or(0);
        if !(1..=MICE_MAX).contains(&self.transfers) || most > CROWD_MAX {
            return Err(format!(
                "a contest has 1 to {MICE_MAX} small transfers beside at most {CROWD_MAX} flows"
            ));
        }
        Ok(Mice {
            field: self.link.check()?,
            crowds: self.crowds,
            transfers: self.transfers,
            bytes: bytes(&self.size)?,
            every: duration(&self.every)?,
            congestion: self.tcp,
            curves: curves.collect::<std::result::Result<_, String>>()?,
        })
    }
}

impl TrialsSettings {
    fn check(self) -> std::result::Result<Trials, String> {
        let rates = self.rates.iter().map(|text| rate(text));
        let curves = self.curve.into_iter().map(TrialCurve::check);
        if !(1..=RUNS_MAX).contains(&self.runs) {
            return Err(format!("`runs` is from 1 to {RUNS_MAX}"));
        }
        Ok(Trials {
            rates: rates.collect::<std::result::Result<_, _>>()?,
            bytes: bytes(&self.object)?,
            runs: self.runs,
            curves: curves.collect::<std::result::Result<_, _>>()?,
        })
    }
}

impl TrialCurve {
    fn check(self) -> std::result::Result<(Curve, Trial), String> {
        if self.tasks > TASKS_MAX {
            return Err(format!("a load has at most {TASKS_MAX} tasks"));
        }
        let socket = self.socket.as_deref().map(bytes).transpose()?;
        let trial = Trial {
            feedback: self.feedback,
            tasks: self.tasks,
            socket_bytes: socket.map(|bytes| bytes as usize),
            target: self.folder.map_or(Target::Memory, Target::Folder),
        };
        Ok((self.curve, trial))
    }
}

impl FieldSettings {
    fn check(self) -> std::result::Result<Field, String> {
        Ok(Field {
            rate: rate(&self.rate)?,
            rtt: duration(&self.rtt)?,
            queue_packets_min: queue(self.queue_packets)?,
        })
    }
}

fn queue(packets: u32) -> std::result::Result<u32, String> {
    if (1..=QUEUE_MAX).contains(&packets) {
        return Ok(packets);
    }
    Err(format!("a queue holds 1 to {QUEUE_MAX} packets"))
}

const TIME_MAX: Duration = Duration::from_mins(10);
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const QUEUE_MAX: u32 = 100_000;
/// Each has a thread or two while it lasts.
const MICE_MAX: u32 = 1000;
const CROWD_MAX: u32 = 20;
const RUNS_MAX: u32 = 100;
const TASKS_MAX: u32 = 64;

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
    fn a_plan_is_read() {
        let plan = ContestPlan::parse("p", SHARE).unwrap();
        let Sort::Share(share) = plan.sort else {
            panic!("{plan:?}");
        };
        assert_eq!(share.rtts, [1, 10].map(Duration::from_millis));
        let [tcp, beside] = &share.curves[0].2;
        assert_eq!(*tcp, Kind::Tcp("reno".into()));
        assert_eq!(beside, &"sabul".parse().unwrap());
    }

    #[test]
    fn a_plan_that_makes_no_sense_is_refused() {
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
