//! Targets of Lighthaul, each a ratio of two numbers of one bench.
//!
//! Both numbers cover the same: if Lighthaul's excludes start-up, so does the peer's.

use super::case::{Data, Loss, Path};
use super::outcome::{Outcome, Summary};
use super::value::Value;

/// Target.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    what: &'static str,
    /// Dividend and divisor.
    ratio: String,
    bound: Bound,
    /// Measured ratio; `None` if a number is missing.
    got: Option<Value>,
    /// Physical maximum. A larger ratio means a faulty measurement.
    most: f64,
}

/// Bound of acceptable ratios.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(f64),
    Above(f64),
    AtMost(f64),
    Below(f64),
}

impl Target {
    fn new(what: &'static str, ratio: &str, bound: Bound, got: Option<Value>) -> Self {
        Self {
            what,
            ratio: ratio.to_owned(),
            bound,
            got,
            most: f64::INFINITY,
        }
    }

    /// Formats the target as a row of the table.
    pub(crate) fn cells(&self) -> Vec<String> {
        let (word, limit) = match self.bound {
            Bound::AtLeast(limit) => ("at least", limit),
            Bound::Above(limit) => ("above", limit),
            Bound::AtMost(limit) => ("at most", limit),
            Bound::Below(limit) => ("below", limit),
        };
        let text =
            |show: fn(&Value) -> String| self.got.as_ref().map_or_else(|| "-".to_owned(), show);
        vec![
            self.what.to_owned(),
            self.ratio.clone(),
            format!("{word} {limit}"),
            text(|got| format!("{:.3}", got.middle)),
            text(|got| format!("{:.3}-{:.3}", got.low, got.high)),
            self.verdict(),
        ]
    }

    /// Returns the verdict. There is none after failed runs, with too few runs, or if the bound is
    /// within the spread.
    fn verdict(&self) -> String {
        let Some(got) = self.got else {
            return "not measured".to_owned();
        };
        if got.middle > self.most {
            return "faulty: above the physical maximum".to_owned();
        }
        if got.failed > 0 {
            return format!("no verdict: {} runs failed", got.failed);
        }
        if got.runs < RUNS_MIN {
            return format!("no verdict: fewer than {RUNS_MIN} runs");
        }
        match [got.low, got.high].map(|end| self.bound.holds(end)) {
            [true, true] => "reached".to_owned(),
            [false, false] => "NOT REACHED".to_owned(),
            _ => "no verdict: the bound is within the spread".to_owned(),
        }
    }
}

impl Bound {
    fn holds(self, got: f64) -> bool {
        match self {
            Self::AtLeast(limit) => got >= limit,
            Self::Above(limit) => got > limit,
            Self::AtMost(limit) => got <= limit,
            Self::Below(limit) => got < limit,
        }
    }
}

/// Evaluates all targets.
pub(crate) fn lines(summaries: &[Summary]) -> Vec<Target> {
    let all = Measured(summaries);
    let mut lines = all.memory();
    lines.extend(all.files());
    lines.extend(all.busy());
    lines.extend(all.trees());
    lines.extend(all.over_ssh());
    lines.push(all.resumed());
    lines
}

/// Returns the program that other programs are compared with.
pub(crate) const fn ours_for(data: Data) -> &'static str {
    match data {
        Data::Memory => "lighthaul-memory",
        Data::SevenHundredMegabytes => "lighthaul-rbudp",
        Data::File
        | Data::Tree
        | Data::Gibibyte
        | Data::HundredMegabytes
        | Data::EightGibibytes
        | Data::TenGibibytes
        | Data::Resumed
        | Data::Again
        | Data::Empty => "lighthaul",
        Data::HalfGibibyte => "ssh-lighthaul",
    }
}

/// Results to compare.
#[derive(Clone, Copy, Debug)]
struct Measured<'a>(&'a [Summary]);

impl Measured<'_> {
    /// Returns a number of all runs of a program in a cell.
    fn of(
        &self,
        place: (Path, Loss, Data),
        tool: &str,
        number: fn(&Outcome) -> Option<f64>,
    ) -> Option<Value> {
        let is_it = |s: &&Summary| (s.path, s.loss, s.data) == place && s.tool == tool;
        let found = self.0.iter().find(is_it)?;
        let value = Value::of(found.good.iter().filter_map(number))?;
        Some(value.beside_failed(found.failed))
    }

    /// Evaluates the targets from memory to memory.
    fn memory(&self) -> Vec<Target> {
        let ratio = |path: Path, what, one: &str, other: &str, bound| {
            let place = (path, Loss::None, Data::Memory);
            let pair = self.of(place, one, bps).zip(self.of(place, other, bps));
            let got = pair.map(|(one, other)| one.over(other));
            let most = if other == "raw-udp" {
                1.0
            } else {
                f64::INFINITY
            };
            Target {
                most,
                ..Target::new(what, &format!("{one} / {other}"), bound, got)
            }
        };
        let plain = "memory to memory, veth, plain";
        let sealed = "memory to memory, veth, encrypted";
        let cut = "memory to memory, veth, cut before the receiver";
        let cost = "memory to memory, veth, beside RBUDP";
        let (ours, ours_sealed) = ("lighthaul-memory", "lighthaul-memory-sealed");
        let others = [
            ("lighthaul-memory-rbudp+", ours),
            ("lighthaul-memory-sabul", ours),
            ("lighthaul-memory-sabul-swift", ours),
            ("lighthaul-memory-vbtp", ours),
            ("lighthaul-memory-tcp", ours_sealed),
            ("lighthaul-memory-ptcp", ours_sealed),
        ];
        let others =
            others.map(|(other, rbudp)| ratio(Path::Veth, cost, other, rbudp, Bound::AtLeast(0.8)));
        let mut lines = vec![
            ratio(Path::Veth, plain, ours, "raw-udp", Bound::AtLeast(0.60)),
            ratio(
                Path::Veth,
                plain,
                ours,
                "iperf3-cubic-1",
                Bound::AtLeast(0.8),
            ),
            ratio(
                Path::Veth,
                sealed,
                ours_sealed,
                "raw-udp",
                Bound::AtLeast(0.40),
            ),
            ratio(
                Path::Veth,
                sealed,
                ours_sealed,
                "quinn-perf",
                Bound::AtLeast(2.5),
            ),
            ratio(
                Path::VethCut,
                cut,
                ours,
                "iperf3-cubic-1",
                Bound::Above(1.0),
            ),
        ];
        lines.extend(others);
        lines
    }

    /// Evaluates the targets for files.
    fn files(&self) -> Vec<Target> {
        let clean = (Path::Far, Loss::None, Data::Gibibyte);
        let lossy = (Path::Far, Loss::Often, Data::Gibibyte);
        let fast = (Path::Fast, Loss::None, Data::EightGibibytes);
        let ours = self.of(lossy, "lighthaul", moving);
        let bbr = ours
            .zip(self.of(lossy, "iperf3-bbr-1", bps))
            .map(|(one, two)| one.over(two));
        let lossy_name = "the same at 1 % loss";
        let share = "without start-up / payload of the link";
        let to_bbr = "without start-up / iperf3-bbr-1 without start-up";
        let most = "the largest of all lighthaul rows";
        let model = "the lowest row's goodput / prediction";
        vec![
            Target::new(
                "1 GiB, 1 Gb/s, 100 ms",
                share,
                Bound::AtLeast(0.93),
                self.share(clean),
            ),
            Target::new(lossy_name, share, Bound::AtLeast(0.90), self.share(lossy)),
            Target::new(lossy_name, to_bbr, Bound::Above(1.0), bbr),
            Target::new(
                "8 GiB, 5 Gb/s, 115 ms",
                share,
                Bound::AtLeast(0.80),
                self.share(fast),
            ),
            Target::new(
                "memory of a side, MiB",
                most,
                Bound::Below(512.0),
                self.memory_mib(),
            ),
            Target::new(
                "equation 5 at no loss",
                model,
                Bound::AtLeast(0.95),
                self.model(),
            ),
        ]
    }

    /// Evaluates the targets for a receiver that shares its core.
    fn busy(&self) -> Vec<Target> {
        let place = (Path::VethBusy, Loss::None, Data::SevenHundredMegabytes);
        let plus_over_plain = |number| {
            let plus = self.of(place, "lighthaul-rbudp+", number);
            let pair = plus.zip(self.of(place, "lighthaul-rbudp", number));
            pair.map(|(plus, plain)| plus.over(plain))
        };
        let name = "700 MB at 4 Gb/s, four tasks on the receiver's core";
        vec![
            Target::new(
                name,
                "datagrams sent again, lighthaul-rbudp+ / lighthaul-rbudp",
                Bound::AtMost(0.1),
                plus_over_plain(resent),
            ),
            Target::new(
                name,
                "seconds, lighthaul-rbudp+ / lighthaul-rbudp",
                Bound::AtMost(1.0),
                plus_over_plain(moving_s),
            ),
        ]
    }

    /// Evaluates the targets for many files.
    fn trees(&self) -> Vec<Target> {
        let far = |data, tool| self.of((Path::Far, Loss::None, data), tool, seconds);
        let veth = |tool| self.of((Path::Veth, Loss::None, Data::Empty), tool, seconds);
        let over = |one: Option<Value>, other: Option<Value>| {
            one.zip(other).map(|(one, other)| one.over(other))
        };
        let tree = far(Data::Tree, "lighthaul");
        let again = far(Data::Again, "lighthaul");
        let (empty, count) = (veth("lighthaul"), Data::Empty.files().0 as f64);
        let name = "100,000 files, nothing changed, 1 Gb/s, 100 ms";
        let empty_name = "1,000,000 empty files, veth";
        vec![
            Target::new(
                "10,000 x 10 KB, 1 Gb/s, 100 ms",
                "seconds / seconds of one 100 MB file",
                Bound::AtMost(1.2),
                over(tree, far(Data::HundredMegabytes, "lighthaul")),
            ),
            Target::new(name, "seconds", Bound::Below(2.0), again),
            Target::new(
                name,
                "seconds / rsync",
                Bound::Below(1.0),
                over(again, far(Data::Again, "rsync")),
            ),
            Target::new(
                empty_name,
                "files a second",
                Bound::Above(50_000.0),
                empty.map(|empty| Value::exact(count).over(empty)),
            ),
            Target::new(
                empty_name,
                "files a second / rsync",
                Bound::AtLeast(3.0),
                over(veth("rsync"), empty),
            ),
        ]
    }

    /// Evaluates the targets where only the port of ssh is open.
    fn over_ssh(&self) -> Vec<Target> {
        let rate = |tool| self.of((Path::Ssh, Loss::Rare, Data::HalfGibibyte), tool, bps);
        let name = "512 MiB, 1 Gb/s, 100 ms, 0.01 % loss, only ssh";
        let to = |tool| {
            rate("ssh-lighthaul")
                .zip(rate(tool))
                .map(|(one, two)| one.over(two))
        };
        vec![
            Target::new(name, "goodput / scp", Bound::AtLeast(5.0), to("scp")),
            Target::new(
                name,
                "goodput / rsync over ssh",
                Bound::AtLeast(5.0),
                to("ssh-rsync"),
            ),
        ]
    }

    /// Evaluates the target for a copy that an earlier run began.
    fn resumed(&self) -> Target {
        let pace = |data| self.of((Path::Middle, Loss::None, data), "lighthaul", packet_s);
        let (resumed, whole) = (pace(Data::Resumed), pace(Data::TenGibibytes));
        Target::new(
            "20 GiB with half held, 1 Gb/s, 50 ms",
            "seconds per datagram / seconds per datagram of 10 GiB with nothing held",
            Bound::AtMost(1.05),
            resumed
                .zip(whole)
                .map(|(resumed, whole)| resumed.over(whole)),
        )
    }

    /// Returns the goodput without start-up, as a part of the link's rate.
    fn share(&self, place: (Path, Loss, Data)) -> Option<Value> {
        let goodput = self.of(place, "lighthaul", moving)?;
        Some(goodput.over(Value::exact(place.0.payload_bps()?)))
    }

    fn memory_mib(&self) -> Option<Value> {
        let ours = self.0.iter().filter(|s| s.tool.starts_with("lighthaul"));
        let failed = ours.clone().map(|s| s.failed).sum();
        let bytes = ours
            .flat_map(|s| &s.good)
            .flat_map(|one| one.rss_bytes)
            .max()?;
        Some(Value::exact(bytes as f64 / f64::from(1 << 20)).beside_failed(failed))
    }

    fn model(&self) -> Option<Value> {
        let clean = self
            .0
            .iter()
            .filter(|s| s.loss == Loss::None && s.path.payload_bps().is_some());
        let ratios = clean.filter_map(|s| {
            let value = Value::of(s.good.iter().filter_map(of_prediction))?;
            Some(value.beside_failed(s.failed))
        });
        ratios.min_by(|one, other| one.middle.total_cmp(&other.middle))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "all accessors have one signature")]
fn bps(outcome: &Outcome) -> Option<f64> {
    Some(outcome.bps())
}

#[expect(clippy::unnecessary_wraps, reason = "all accessors have one signature")]
fn seconds(outcome: &Outcome) -> Option<f64> {
    Some(outcome.seconds)
}

fn moving(outcome: &Outcome) -> Option<f64> {
    outcome.report.map(|report| report.goodput_bps)
}

fn moving_s(outcome: &Outcome) -> Option<f64> {
    outcome.report.map(|report| report.moving_s)
}

fn resent(outcome: &Outcome) -> Option<f64> {
    outcome.report.map(|report| report.resent)
}

/// Returns the seconds of the command for each datagram.
fn packet_s(outcome: &Outcome) -> Option<f64> {
    Some(outcome.seconds / outcome.report?.sent_once)
}

fn of_prediction(outcome: &Outcome) -> Option<f64> {
    let report = outcome.report?;
    Some(report.goodput_bps / report.predicted_bps?)
}

/// Number of runs that a verdict requires.
const RUNS_MIN: usize = 3;

/// Header of the table of targets.
pub(crate) const HEAD: [&str; 6] = ["target", "ratio", "wanted", "here", "low-high", "verdict"];

#[cfg(test)]
mod tests {
    use super::super::outcome::{Row, summarize};
    use super::*;

    fn verdict(most: f64, runs: &[f64]) -> String {
        let got = Value::of(runs.iter().copied());
        Target {
            most,
            ..Target::new("x", "y", Bound::AtLeast(0.6), got)
        }
        .verdict()
    }

    #[test]
    fn unmeasured_targets_are_not_reached() {
        let lines = lines(&[]);
        assert_eq!(lines.len(), 27);
        assert!(lines.iter().all(|line| line.verdict() == "not measured"));
        assert!(Bound::AtLeast(0.9).holds(0.9) && !Bound::Above(0.9).holds(0.9));
    }

    #[test]
    fn verdict_depends_on_spread_and_runs() {
        assert_eq!(verdict(1.0, &[0.7, 0.8, 0.9]), "reached");
        assert_eq!(verdict(1.0, &[0.5, 0.5, 0.4]), "NOT REACHED");
        let unsure = "no verdict: the bound is within the spread";
        assert_eq!(verdict(1.0, &[0.5, 0.7, 0.8]), unsure);
        assert_eq!(verdict(1.0, &[0.9, 0.9]), "no verdict: fewer than 3 runs");
        assert_eq!(verdict(1.0, &[1.3]), "faulty: above the physical maximum");
    }

    #[test]
    fn failed_run_prevents_a_verdict() {
        let row = |seconds: f64, is_true: bool| Row {
            path: Path::Far,
            loss: Loss::None,
            data: Data::Again,
            tool: "lighthaul".to_owned(),
            result: if is_true {
                Ok(Outcome {
                    seconds,
                    ..Outcome::default()
                })
            } else {
                Err("NOT A TRUE COPY: 7 differs".to_owned())
            },
        };
        let verdict = |rows: &[Row]| {
            let lines = lines(&summarize(rows));
            let is_it = |line: &&Target| line.what.contains("nothing changed");
            lines.iter().find(is_it).unwrap().verdict()
        };
        let good = [row(1.0, true), row(1.1, true), row(1.2, true)];
        assert_eq!(verdict(&good), "reached");
        let with_a_bad_one = [&good[..], &[row(0.1, false)]].concat();
        assert_eq!(verdict(&with_a_bad_one), "no verdict: 1 runs failed");
    }
}
