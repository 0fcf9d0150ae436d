//! Plan of the grid, in TOML: the values of each axis, and the shorter lists of the quick form.

use std::path::Path as FilePath;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_lab::error::Result;
use lighthaul_lab::file;
use lighthaul_lab::quantity;
use serde::Deserialize;

use super::point::{Condition, Point};

/// Plan of the grid.
#[derive(Clone, Debug)]
pub(crate) struct GridPlan {
    axes: Axes,
    quick: Axes,
    seconds: f64,
    round_trips: u32,
    /// Seed of all random choices.
    pub(crate) seed: u64,
}

/// Values of the axes.
#[derive(Clone, Debug)]
pub(crate) struct Axes {
    pub(crate) rates: Vec<Rate>,
    pub(crate) rtts: Vec<Duration>,
    pub(crate) losses_ppb: Vec<u64>,
    /// Lengths of the queue in thousandths of the product of rate and round-trip time.
    pub(crate) queues_milli: Vec<u32>,
    pub(crate) conditions: Vec<Condition>,
}

/// Keys of the file of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    rates: Vec<String>,
    rtts: Vec<String>,
    losses: Vec<String>,
    queues: Vec<f64>,
    conditions: Vec<Condition>,
    seconds: f64,
    round_trips: u32,
    seed: u64,
    quick: AxesSettings,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AxesSettings {
    rates: Vec<String>,
    rtts: Vec<String>,
    losses: Vec<String>,
    queues: Vec<f64>,
    conditions: Vec<Condition>,
}

impl GridPlan {
    /// Reads the plan's file.
    pub(crate) fn read(file: &FilePath) -> Result<Self> {
        file::read(file, |_, text| Self::parse(text))
    }

    /// Parses a plan.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        let axes = AxesSettings {
            rates: settings.rates,
            rtts: settings.rtts,
            losses: settings.losses,
            queues: settings.queues,
            conditions: settings.conditions,
        };
        if !(0.1..=SECONDS_MAX).contains(&settings.seconds) || settings.round_trips > TRIPS_MAX {
            return Err(format!(
                "`seconds` must be from 0.1 to {SECONDS_MAX}, and `round_trips` at most {TRIPS_MAX}"
            ));
        }
        Ok(Self {
            axes: axes.check()?,
            quick: settings.quick.check()?,
            seconds: settings.seconds,
            round_trips: settings.round_trips,
            seed: settings.seed,
        })
    }

    /// Returns the values of the axes, in full or in the quick form.
    pub(crate) const fn axes(&self, quick: bool) -> &Axes {
        if quick { &self.quick } else { &self.axes }
    }

    /// Returns the points in the order of the table.
    pub(crate) fn points(&self, quick: bool) -> Vec<Point> {
        let axes = self.axes(quick);
        let conditions = axes.conditions.iter();
        conditions.flat_map(|of| axes.points_of(*of)).collect()
    }

    /// Returns the time for which a transfer over a point is measured.
    pub(crate) fn time(&self, point: &Point) -> Duration {
        Duration::from_secs_f64(self.seconds) + point.rtt * self.round_trips
    }
}

impl Axes {
    /// Returns the points of a condition, in the order of the table.
    pub(crate) fn points_of(&self, condition: Condition) -> Vec<Point> {
        let mut points = Vec::new();
        for rate in &self.rates {
            for rtt in &self.rtts {
                points.extend(self.paths(condition, *rate, *rtt));
            }
        }
        points
    }

    fn paths(
        &self,
        condition: Condition,
        rate: Rate,
        rtt: Duration,
    ) -> impl Iterator<Item = Point> {
        let losses = self.losses_ppb.iter();
        losses.flat_map(move |loss_ppb| {
            self.queues_milli.iter().map(move |queue_milli| Point {
                condition,
                rate,
                rtt,
                loss_ppb: *loss_ppb,
                queue_milli: *queue_milli,
            })
        })
    }
}

impl AxesSettings {
    fn check(self) -> std::result::Result<Axes, String> {
        let rates = self.rates.iter().map(|text| quantity::rate(text));
        let rtts = self.rtts.iter().map(|text| quantity::duration(text));
        let losses = self.losses.iter().map(|text| quantity::chance_ppb(text));
        let queues = self.queues.iter().map(|queue| milli(*queue));
        Ok(Axes {
            rates: rates.collect::<std::result::Result<_, _>>()?,
            rtts: rtts.collect::<std::result::Result<_, _>>()?,
            losses_ppb: losses.collect::<std::result::Result<_, _>>()?,
            queues_milli: queues.collect::<std::result::Result<_, _>>()?,
            conditions: self.conditions,
        })
    }
}

/// Returns a multiple of the product in thousandths.
#[expect(clippy::cast_sign_loss, reason = "the range is checked")]
fn milli(queue: f64) -> std::result::Result<u32, String> {
    if (0.001..=QUEUE_MAX).contains(&queue) {
        Ok((queue * 1000.0).round() as u32)
    } else {
        Err(format!("a queue must be from 0.001 to {QUEUE_MAX}"))
    }
}

const SECONDS_MAX: f64 = 600.0;
const TRIPS_MAX: u32 = 1000;
const QUEUE_MAX: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = include_str!("../../../../bench/grid/grid.toml");

    #[test]
    fn plan_of_the_grid_is_valid() {
        let plan = GridPlan::parse(PLAN).unwrap();
        let points = plan.points(false);
        assert_eq!(points.len(), 6 * 3 * 4 * 4 * 3);
        let mut once = points.clone();
        once.dedup();
        assert_eq!(once.len(), points.len());
        let quick = plan.points(true);
        assert!(quick.iter().all(|point| points.contains(point)));
    }

    #[test]
    fn invalid_plan_is_rejected() {
        for (from, to) in [
            ("\"alone\"", "\"lonely\""),
            ("0.05, 0.25", "0.0, 0.25"),
            ("seconds = 2.0", "seconds = 2000.0"),
            ("[quick]", "[quicker]"),
            ("\"1ms\"", "\"1parsec\""),
        ] {
            let text = PLAN.replacen(from, to, 1);
            assert!(GridPlan::parse(&text).is_err(), "{to}");
        }
    }
}
