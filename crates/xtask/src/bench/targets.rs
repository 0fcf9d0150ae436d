//! What Lighthaul must reach, each line a ratio of two numbers of one bench.

use super::case::{Data, Loss, Path};
use super::outcome::{Outcome, Summary};

/// One thing that must be reached.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    what: &'static str,
    /// What is divided by what.
    ratio: String,
    bound: Bound,
    /// Nothing if something that it needs was not measured.
    got: Option<f64>,
}

/// Which numbers are good enough.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(f64),
    Above(f64),
    AtMost(f64),
    Below(f64),
}

impl Line {
    /// The line as a row of the table.
    pub(crate) fn cells(&self) -> Vec<String> {
        let (word, limit) = match self.bound {
            Bound::AtLeast(limit) => ("at least", limit),
            Bound::Above(limit) => ("above", limit),
            Bound::AtMost(limit) => ("at most", limit),
            Bound::Below(limit) => ("below", limit),
        };
        let got = self
            .got
            .map_or_else(|| "-".to_owned(), |got| format!("{got:.3}"));
        let verdict = match self.got.map(|got| self.bound.holds(got)) {
            Some(true) => "reached",
            Some(false) => "NOT REACHED",
            None => "not measured",
        };
        let wanted = format!("{word} {limit}");
        vec![
            self.what.to_owned(),
            self.ratio.clone(),
            wanted,
            got,
            verdict.to_owned(),
        ]
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

/// All that must be reached, with what was.
pub(crate) fn lines(summaries: &[Summary]) -> Vec<Line> {
    let all = Measured(summaries);
    let mut lines = all.memory();
    lines.extend(all.files());
    lines
}

/// Whose numbers others are compared with.
pub(crate) const fn ours_for(data: Data) -> &'static str {
    match data {
        Data::Memory => "lighthaul-memory",
        Data::File
        | Data::Tree
        | Data::Gibibyte
        | Data::HundredMegabytes
        | Data::EightGibibytes => "lighthaul",
    }
}

/// What there is to compare.
#[derive(Clone, Copy, Debug)]
struct Measured<'a>(&'a [Summary]);

impl Measured<'_> {
    fn find(&self, place: (Path, Loss, Data), tool: &str) -> Option<&Outcome> {
        let is_it = |s: &&Summary| (s.path, s.loss, s.data) == place && s.tool == tool;
        self.0.iter().find(is_it)?.median.as_ref().ok()
    }

    /// The lines about memory to memory.
    fn memory(&self) -> Vec<Line> {
        let ratio = |path: Path, what, one: &str, other: &str, bound| {
            let place = (path, Loss::None, Data::Memory);
            let bps = |tool: &str| self.find(place, tool).map(Outcome::bps);
            let got = bps(one).zip(bps(other)).map(|(one, other)| one / other);
            Line {
                what,
                ratio: format!("{one} / {other}"),
                bound,
                got,
            }
        };
        let plain = "memory to memory, veth, plain";
        let sealed = "memory to memory, veth, encrypted";
        let cut = "memory to memory, veth, cut before the receiver";
        let (ours, ours_sealed) = ("lighthaul-memory", "lighthaul-memory-sealed");
        vec![
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
        ]
    }

    /// The lines about files.
    fn files(&self) -> Vec<Line> {
        let clean = (Path::Far, Loss::None, Data::Gibibyte);
        let lossy = (Path::Far, Loss::Often, Data::Gibibyte);
        let fast = (Path::Fast, Loss::None, Data::EightGibibytes);
        let bbr = self.find(lossy, "iperf3-bbr-1").map(Outcome::bps);
        let ours = self.find(lossy, "lighthaul").and_then(moving);
        let seconds = |data| {
            self.find((Path::Far, Loss::None, data), "lighthaul")
                .map(|o| o.seconds)
        };
        let line = |what, ratio: &str, bound, got| Line {
            what,
            ratio: ratio.to_owned(),
            bound,
            got,
        };
        let share = "without start-up / payload of the link";
        vec![
            line(
                "1 GiB, 1 Gb/s, 100 ms",
                share,
                Bound::AtLeast(0.93),
                self.share(clean),
            ),
            line(
                "the same at 1 % loss",
                share,
                Bound::AtLeast(0.90),
                self.share(lossy),
            ),
            line(
                "the same at 1 % loss",
                "lighthaul / iperf3-bbr-1",
                Bound::Above(1.0),
                ours.zip(bbr).map(|(ours, bbr)| ours / bbr),
            ),
            line(
                "8 GiB, 5 Gb/s, 115 ms",
                share,
                Bound::AtLeast(0.80),
                self.share(fast),
            ),
            line(
                "10,000 x 10 KB, 1 Gb/s, 100 ms",
                "seconds / seconds of one 100 MB file",
                Bound::AtMost(1.5),
                seconds(Data::Tree)
                    .zip(seconds(Data::HundredMegabytes))
                    .map(|(a, b)| a / b),
            ),
            line(
                "memory of a side, MiB",
                "the largest of all lighthaul rows",
                Bound::Below(512.0),
                self.memory_mib(),
            ),
            line(
                "equation 5 at no loss",
                "the lowest goodput / prediction",
                Bound::AtLeast(0.95),
                self.model(),
            ),
        ]
    }

    /// Goodput without start-up as a share of the link.
    fn share(&self, place: (Path, Loss, Data)) -> Option<f64> {
        let goodput = self.find(place, "lighthaul").and_then(moving)?;
        Some(goodput / place.0.payload_bps()?)
    }

    fn memory_mib(&self) -> Option<f64> {
        let ours = self
            .0
            .iter()
            .filter(|s| s.tool.starts_with("lighthaul") && s.median.is_ok());
        let most = ours.flat_map(|summary| summary.rss_bytes).max()?;
        Some(most as f64 / f64::from(1 << 20))
    }

    fn model(&self) -> Option<f64> {
        let clean = self
            .0
            .iter()
            .filter(|s| s.loss == Loss::None && s.path.payload_bps().is_some());
        let own = clean.filter_map(|summary| summary.median.as_ref().ok()?.own);
        let ratios = own.filter_map(|own| Some(own.goodput_bps / own.predicted_bps?));
        ratios.min_by(f64::total_cmp)
    }
}

fn moving(outcome: &Outcome) -> Option<f64> {
    outcome.own.map(|own| own.goodput_bps)
}

/// The head of the table of lines.
pub(crate) const HEAD: [&str; 5] = ["target", "ratio", "wanted", "here", "verdict"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_reached() {
        let lines = lines(&[]);
        assert_eq!(lines.len(), 12);
        assert!(lines.iter().all(|line| line.cells()[4] == "not measured"));
        assert!(Bound::AtLeast(0.9).holds(0.9) && !Bound::Above(0.9).holds(0.9));
    }
}
