//! Axes of pictures: scales that map values to positions on the canvas, grids, and curves.
//!
//! A [`Scale`] is one axis, linear or logarithmic. [`grid`] draws two of them with ticks at round
//! values, and a [`Pen`] draws curves and their legend in colors for color-blind readers. Positions
//! are in pixels from the upper left, so a vertical scale runs from a large position to a small
//! one. Layout and titles are left to callers such as `chart`.

use std::ops::RangeInclusive;

use crate::canvas::{Anchor, Canvas, Dashes, INK, Stroke};

/// Scale that maps values to positions on the canvas, linearly or logarithmically.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Values at the ends of the axis.
    pub values: RangeInclusive<f64>,
    /// Positions of the ends on the canvas.
    pub places: RangeInclusive<f32>,
    log: bool,
}

impl Scale {
    /// Creates a linear scale.
    pub const fn linear(values: RangeInclusive<f64>, places: RangeInclusive<f32>) -> Self {
        Self {
            values,
            places,
            log: false,
        }
    }

    /// Creates a logarithmic scale.
    pub const fn log(values: RangeInclusive<f64>, places: RangeInclusive<f32>) -> Self {
        Self {
            values,
            places,
            log: true,
        }
    }

    /// Creates a scale that covers all values with a margin: from zero on, or around the values for
    /// a logarithmic scale.
    pub fn around(
        values: impl Iterator<Item = f64>,
        is_log: bool,
        places: RangeInclusive<f32>,
    ) -> Self {
        let (least, most) = values.fold((f64::MAX, LEAST), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        if is_log {
            Self::log(least.clamp(LEAST, most) * 0.8..=most * 1.25, places)
        } else {
            Self::linear(0.0..=most * 1.05, places)
        }
    }

    /// Returns the position of a value. On a logarithmic scale, values below its start are drawn at
    /// the start.
    pub fn at(&self, value: f64) -> f32 {
        let (from, till) = (*self.values.start(), *self.values.end());
        let share = if self.log {
            (value.max(from).ln() - from.ln()) / (till.ln() - from.ln())
        } else {
            (value - from) / (till - from)
        };
        self.places.start() + share as f32 * (self.places.end() - self.places.start())
    }

    /// Returns round values for ticks: 1, 2 and 5 of each decade, or at most `most` linear steps.
    pub fn ticks(&self, most: u32) -> Vec<f64> {
        if self.log {
            let decades = (-3..8).map(|power| 10_f64.powi(power));
            let ticks = decades.flat_map(|decade| [decade, 2.0 * decade, 5.0 * decade]);
            return ticks.filter(|tick| self.values.contains(tick)).collect();
        }
        let span = self.values.end() - self.values.start();
        let decade = 10_f64.powf((span / f64::from(most)).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
        let step = steps
            .into_iter()
            .find(|step| span / step <= f64::from(most))
            .unwrap_or(span);
        (0..=most)
            // Round off the binary error of the multiplication.
            .map(|nth| (f64::from(nth) * step * 1e9).round() / 1e9)
            .filter(|tick| self.values.contains(tick))
            .collect()
    }
}

/// Draws two axes with grid lines and numbers.
pub fn grid(canvas: &mut Canvas, [x, y]: [&Scale; 2]) {
    let (left, right) = (*x.places.start(), *x.places.end());
    let (bottom, top) = (*y.places.start(), *y.places.end());
    for tick in x.ticks(PANEL_TICKS) {
        let at = x.at(tick);
        canvas.line(&[(at, top), (at, bottom)], GRID, 1.0);
        let below = (at, bottom + 25.0);
        canvas.text(&format!("{tick}"), below, SIZE, Anchor::Middle);
    }
    for tick in y.ticks(PANEL_TICKS) {
        let at = y.at(tick);
        canvas.line(&[(left, at), (right, at)], GRID, 1.0);
        let beside = (left - 10.0, at + 6.0);
        canvas.text(&format!("{tick}"), beside, SIZE, Anchor::End);
    }
    canvas.line(&[(left, top), (left, bottom), (right, bottom)], INK, 1.5);
}

/// Style of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pen {
    /// Red, green and blue.
    pub color: [u8; 3],
    /// True for a dashed line.
    pub dashed: bool,
}

impl Pen {
    /// Returns the style of the curve with index `nth`.
    pub const fn new(nth: usize, dashed: bool) -> Self {
        Self {
            color: COLORS[nth % COLORS.len()],
            dashed,
        }
    }

    /// Draws a line between points of the canvas.
    pub fn line(self, canvas: &mut Canvas, points: &[(f32, f32)]) {
        let (width, dashes): (_, Dashes) = if self.dashed {
            (1.8, &[8.0, 6.0])
        } else {
            (3.0, &[])
        };
        canvas.stroke(points, self.color, Stroke { width, dashes });
    }

    /// Draws a curve: its points, joined by lines.
    pub fn curve(self, canvas: &mut Canvas, [x, y]: [&Scale; 2], points: &[(f64, f64)]) {
        let points: Vec<_> = points
            .iter()
            .map(|point| (x.at(point.0), y.at(point.1)))
            .collect();
        self.line(canvas, &points);
        for (x, y) in points {
            canvas.dot((x, y), 4.0, self.color);
        }
    }

    /// Draws an entry of the legend: a piece of the curve, and `name`.
    pub fn entry(self, canvas: &mut Canvas, name: &str, (x, y): (f32, f32)) {
        self.line(canvas, &[(x, y), (x + 36.0, y)]);
        canvas.text(name, (x + 46.0, y + 6.0), SIZE, Anchor::Start);
    }
}

/// Colors that color-blind readers can distinguish (Okabe and Ito 2008).
pub const COLORS: [[u8; 3]; 8] = [
    [0, 114, 178],
    [0, 158, 115],
    [213, 94, 0],
    [204, 121, 167],
    [86, 180, 233],
    [230, 159, 0],
    [120, 120, 120],
    [60, 60, 60],
];
/// Color of grid lines.
pub const GRID: [u8; 3] = [225, 225, 225];
/// Limit of ticks on an axis of one of several panels.
const PANEL_TICKS: u32 = 6;
const SIZE: f32 = 17.0;
/// Smallest end of an axis.
const LEAST: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_limit() {
        let linear = |till: f64| Scale::linear(0.0..=till, 0.0..=100.0);
        assert_eq!(linear(105.0).ticks(6), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(linear(0.33).ticks(6), [0.0, 0.1, 0.2, 0.3]);
        assert_eq!(linear(10.0).ticks(11).len(), 11);
        let log = Scale::log(0.5..=21.0, 0.0..=100.0);
        assert_eq!(log.ticks(6), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
    }

    #[test]
    fn scales_map_values_to_positions() {
        let log = Scale::around([1.0, 80.0].into_iter(), true, 100.0..=0.0);
        // Zero has no logarithm and is drawn at the start.
        let places: Vec<f32> = [0.0, 0.8, 100.0].map(|value| log.at(value)).into();
        assert_eq!(places, [100.0, 100.0, 0.0]);
        let linear = Scale::around([20.0].into_iter(), false, 0.0..=210.0);
        assert_eq!(vec![linear.at(0.0), linear.at(21.0)], [0.0, 210.0]);
        let nothing = Scale::around(std::iter::empty(), true, 0.0..=1.0);
        assert!(nothing.values.start() < nothing.values.end());
    }
}
