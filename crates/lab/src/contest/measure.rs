//! Measurement of a contest in real time, between hosts of the lab.
//!
//! [`ContestPlan::measure`] fills the table that [`ContestPlan::blank`] lays out. Slow links run
//! beside each other as far as the processors allow; fast ones run alone. Repeated points give the
//! median.

use std::time::Duration;

use lighthaul_base::Rate;

use super::flow::{Flow, FlowProtocol};
use super::plan::{ContestPlan, Course, Curve, Measurement, Mice, Share, Trial, Trials};
use super::run::{run, run_beside};
use super::shared_link::{SharedLink, WIRE_LEN};
use super::tcp;
use super::together::together;
use super::trial::{Outcome, try_once};
use crate::error::Result;
use crate::table::{EMULATION, Table};

type Rows = Vec<Vec<Option<f64>>>;

impl ContestPlan {
    /// Returns the table with keys and columns, but without measurements.
    pub fn blank(&self) -> Table {
        let keys: Vec<f64> = match &self.measurement {
            Measurement::Share(share) => share.rtts.iter().map(millis).collect(),
            Measurement::Course(course) => course.ends().map(|end| end.as_secs_f64()).collect(),
            Measurement::Mice(mice) => mice.crowds.iter().map(|flows| f64::from(*flows)).collect(),
            Measurement::Trials(trials) => {
                trials.rates.iter().map(|rate| rate.as_mbps_f64()).collect()
            }
        };
        let curves = self.curves();
        let row = |key: f64| {
            let unknown = std::iter::repeat_n(None, curves.len());
            std::iter::once(Some(key)).chain(unknown).collect()
        };
        let columns = curves
            .iter()
            .map(|curve| format!("{}{EMULATION}", curve.name));
        Table {
            columns: std::iter::once(self.key().into()).chain(columns).collect(),
            rows: keys.into_iter().map(row).collect(),
        }
    }

    /// Measures every point between hosts of the lab.
    pub fn measure(&self) -> Result<Table> {
        let rows = match &self.measurement {
            Measurement::Share(share) => share.measure()?,
            Measurement::Course(course) => course.measure()?,
            Measurement::Mice(mice) => mice.measure()?,
            Measurement::Trials(trials) => trials.measure()?,
        };
        let mut table = self.blank();
        for (row, cells) in table.rows.iter_mut().zip(rows) {
            row.truncate(1);
            row.extend(cells);
        }
        Ok(table)
    }

    /// Returns the curves in the order of their columns.
    pub fn curves(&self) -> Vec<Curve> {
        match &self.measurement {
            Measurement::Share(share) => share.curves.iter().map(|of| of.0.clone()).collect(),
            Measurement::Course(course) => course.curves.iter().map(|of| of.0.clone()).collect(),
            Measurement::Mice(mice) => mice
                .curves
                .iter()
                .flat_map(|of| pair(&of.0, TIMES))
                .collect(),
            Measurement::Trials(trials) => {
                let curves = trials.curves.iter();
                curves.flat_map(|of| pair(&of.0, REACHED)).collect()
            }
        }
    }

    /// Returns the name of the first column.
    const fn key(&self) -> &'static str {
        match self.measurement {
            Measurement::Share(_) => "rtt_ms",
            Measurement::Course(_) => "seconds",
            Measurement::Mice(_) => "flows",
            Measurement::Trials(_) => "rate_mbps",
        }
    }
}

impl Share {
    fn measure(&self) -> Result<Rows> {
        let points = self.rtts.iter().flat_map(|rtt| {
            let curves = self.curves.iter();
            curves.map(|(_, rate, kinds)| (self.link(*rate, *rtt), kinds))
        });
        let points: Vec<_> = points.collect();
        let mut shares = vec![None; points.len()];
        // Slow links can be measured at the same time.
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by_key(|nth| points[*nth].0.rate);
        while !order.is_empty() {
            let count = count_at_once(order.iter().map(|nth| points[*nth].0.rate));
            let batch: Vec<usize> = order.drain(..count).collect();
            let works = batch.iter().map(|nth| {
                let (link, kinds) = points[*nth];
                move || self.share(&link, kinds)
            });
            for (nth, share) in batch.iter().zip(together(works)?) {
                shares[*nth] = Some(share);
            }
        }
        let rows = shares.chunks(self.curves.len());
        Ok(rows.map(<[_]>::to_vec).collect())
    }

    /// Measures TCP's throughput at one point, in percent of its fair share.
    fn share(&self, link: &SharedLink, kinds: &[FlowProtocol; 2]) -> Result<f64> {
        let flows = kinds.clone().map(|protocol| Flow {
            protocol,
            start: Duration::ZERO,
        });
        let samples = run(link, &flows, self.till, LOOK)?;
        // A sample is taken at the end of its interval.
        let first = (self.from.as_millis() / LOOK.as_millis()) as usize;
        let by = |sample: Option<&Vec<u64>>| sample.map_or(0, |bytes| bytes[0]);
        let before = by(first.checked_sub(1).and_then(|nth| samples.get(nth)));
        let carried = by(samples.last()) - before;
        let whole = link.rate.scaled(PAYLOAD_LEN, WIRE_LEN);
        let fair = whole.bytes_in(self.till.saturating_sub(self.from)) as f64 / 2.0;
        Ok(100.0 * carried as f64 / fair)
    }
}

impl Course {
    fn ends(&self) -> impl Iterator<Item = Duration> {
        let count = (self.till.as_nanos() / self.interval.as_nanos()) as u32;
        (1..=count).map(|nth| self.interval * nth)
    }

    fn measure(&self) -> Result<Rows> {
        let works = self.links.iter().enumerate().map(|(nth, link)| {
            let curves = self.curves.iter().filter(move |curve| curve.1 == nth);
            let flows: Vec<Flow> = curves.map(|curve| curve.2.clone()).collect();
            move || run(link, &flows, self.till, self.interval)
        });
        let samples = together(works)?;
        let goodput = |(row, nth): (usize, usize)| {
            let link = self.curves[nth].1;
            let before = self.curves[..nth].iter();
            let place = before.filter(|curve| curve.1 == link).count();
            let bytes = |row: usize| samples[link][row][place];
            let before = row.checked_sub(1).map_or(0, bytes);
            Some(Rate::of(bytes(row) - before, self.interval).as_mbps_f64())
        };
        let row = |row| (0..self.curves.len()).map(move |nth| (row, nth));
        let rows = (0..self.ends().count()).map(|nth| row(nth).map(&goodput).collect());
        Ok(rows.collect())
    }
}

impl Mice {
    fn measure(&self) -> Result<Rows> {
        let point = |crowd: &u32| {
            let times = self
                .curves
                .iter()
                .map(|(_, beside)| self.times(beside, *crowd));
            let times = times.collect::<Result<Vec<_>>>()?;
            Ok(times.into_iter().flatten().map(Some).collect())
        };
        self.crowds.iter().map(point).collect()
    }

    /// Measures the times in seconds until 50% and 95% of the transfers end, beside `crowd` flows.
    fn times(&self, beside: &FlowProtocol, crowd: u32) -> Result<[f64; 2]> {
        let flow = Flow {
            protocol: beside.clone(),
            start: Duration::ZERO,
        };
        let flows = vec![flow; crowd as usize];
        let mut times = run_beside(&self.link, &flows, |hosts, _| {
            hosts.wait(WARM)?;
            tcp::mice(hosts, self)
        })?;
        times.sort_unstable();
        let within = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        Ok([50, 95].map(|percent| within(percent).as_secs_f64()))
    }
}

impl Trials {
    fn measure(&self) -> Result<Rows> {
        let row = |rate: &Rate| {
            let points = self
                .curves
                .iter()
                .map(|(_, trial)| self.point(trial, *rate));
            let points = points.collect::<Result<Vec<_>>>()?;
            Ok(points.into_iter().flatten().map(Some).collect())
        };
        self.rates.iter().map(row).collect()
    }

    /// Measures goodput in percent of the rate, and packets lost in percent. Returns the medians of
    /// all runs.
    fn point(&self, trial: &Trial, rate: Rate) -> Result<[f64; 2]> {
        let runs = (0..self.runs).map(|_| try_once(self, trial, rate));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let goodput =
            |run: &Outcome| 100.0 * self.bytes as f64 * 8.0 / run.seconds / rate.as_bps() as f64;
        let lost = runs.iter().map(|run| run.lost).collect();
        Ok([median(runs.iter().map(goodput).collect()), median(lost)])
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Returns the number of first cases that may run at the same time, at least one.
fn count_at_once(rates: impl Iterator<Item = Rate>) -> usize {
    let sums = rates.scan(0, |sum, rate| {
        *sum += rate.as_bps();
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= TOGETHER_BPS).count().max(1)
}

/// Splits a curve into two.
fn pair(curve: &Curve, parts: [(&str, &str); 2]) -> [Curve; 2] {
    parts.map(|(name, label)| Curve {
        name: format!("{}_{name}", curve.name),
        label: format!("{}: {label}", curve.label),
    })
}

fn millis(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Suffixes and labels of the two curves of small transfers, and of a transfer at a rate.
const TIMES: [(&str, &str); 2] = [
    ("half", "half of them end within"),
    ("most", "95 % of them end within"),
];
const REACHED: [(&str, &str); 2] = [("goodput", "goodput"), ("lost", "lost")];
/// Interval between samples of a share.
const LOOK: Duration = Duration::from_millis(500);
/// Limit of the total rate of links that are measured at the same time, so that the host is no
/// bottleneck.
const TOGETHER_BPS: u64 = 400_000_000;
/// Length of TCP's payload in a packet, in bytes.
const PAYLOAD_LEN: u32 = 1448;
/// Time that the flows run before the small transfers start.
const WARM: Duration = Duration::from_secs(5);
