//! Axes of pictures: scales that map values to positions on the canvas, and their ticks.
//!
//! A [`Scale`] is one axis, linear or logarithmic. Positions are in pixels from the upper left, so a
//! vertical scale runs from a large position to a small one. Layout and curves are in `panel`.

use std::ops::RangeInclusive;

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

    /// Returns round values for ticks, at most `most` of them where the axis is linear.
    ///
    /// A logarithmic axis has round values of each decade: the fewer, the more decades it has.
    pub fn ticks(&self, most: u32) -> Vec<f64> {
        let (from, till) = (*self.values.start(), *self.values.end());
        if self.log {
            let steps: &[f64] = match till / from {
                ratio if ratio > 1e3 => &[1.0],
                ratio if ratio > 1e1 => &[1.0, 2.0, 5.0],
                _ => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            };
            let decades = (-6..10).map(|power| 10_f64.powi(power));
            let ticks = decades.flat_map(|decade| steps.iter().map(move |step| step * decade));
            return ticks.filter(|tick| self.values.contains(tick)).collect();
        }
        let span = till - from;
        let decade = 10_f64.powf((span / f64::from(most)).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
        let step = steps
            .into_iter()
            .find(|step| span / step <= f64::from(most))
            .unwrap_or(span);
        let first = (from / step).ceil();
        (0..=most)
            // Round off the binary error of the multiplication.
            .map(|nth| ((first + f64::from(nth)) * step * 1e9).round() / 1e9)
            .filter(|tick| self.values.contains(tick))
            .collect()
    }
}

/// Formats the value of a tick, with a comma between thousands of long numbers.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value}");
    let is_long = value.abs() >= 1e4 && !text.contains('.');
    if !is_long {
        return text;
    }
    let mut grouped = String::new();
    for (nth, digit) in text.chars().enumerate() {
        let left = text.len() - nth;
        if nth > 0 && left.is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Colors that color-blind readers can distinguish (Okabe and Ito 2008).
pub const COLORS: [[u8; 3]; 8] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [86, 180, 233],
    [230, 159, 0],
    [120, 120, 120],
    [60, 60, 60],
];
/// Color of grid lines.
pub const GRID: [u8; 3] = [225, 225, 225];
/// Color of reference lines and other marks that are not curves.
pub const MARK: [u8; 3] = [110, 110, 110];

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
        let decades = Scale::log(0.5..=2000.0, 0.0..=100.0);
        assert_eq!(decades.ticks(6), [1.0, 10.0, 100.0, 1000.0]);
        let part = Scale::log(2.5..=10.5, 0.0..=100.0);
        assert_eq!(part.ticks(6), [3.0, 4.0, 5.0, 7.0, 10.0]);
    }

    #[test]
    fn ticks_cover_an_axis_that_does_not_start_at_zero() {
        let scale = Scale::linear(0.48..=0.87, 0.0..=100.0);
        assert_eq!(scale.ticks(5), [0.5, 0.6, 0.7, 0.8]);
        let far = Scale::linear(1990.0..=2010.0, 0.0..=100.0);
        assert_eq!(far.ticks(5), [1990.0, 1995.0, 2000.0, 2005.0, 2010.0]);
        let below = Scale::linear(-5.0..=5.0, 0.0..=100.0);
        assert_eq!(below.ticks(2), [-5.0, 0.0, 5.0]);
    }

    #[test]
    fn scales_map_values_to_positions() {
        let log = Scale::log(0.8..=100.0, 100.0..=0.0);
        // Zero has no logarithm and is drawn at the start.
        let places: Vec<f32> = [0.0, 0.8, 100.0].map(|value| log.at(value)).into();
        assert_eq!(places, [100.0, 100.0, 0.0]);
    }

    #[test]
    fn long_numbers_have_commas() {
        let numbers = [0.25, 9000.0, 10000.0, 1_234_567.0].map(number);
        assert_eq!(numbers, ["0.25", "9000", "10,000", "1,234,567"]);
    }
}
