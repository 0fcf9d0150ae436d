//! Curves of a panel: points, with the line through them and the marks at them.

use crate::axis::COLORS;
use crate::canvas::{Canvas, Dashes, INK, Stroke, polygon, rectangle};

/// Curve of a panel.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Label beside the curve, or in the key.
    pub label: String,
    /// Red, green and blue.
    pub color: [u8; 3],
    /// Line through the points.
    pub line: Line,
    /// Mark at each point.
    pub mark: Mark,
    /// Points.
    pub points: Vec<(f64, f64)>,
    /// Error bars: x, lower y and upper y.
    pub intervals: Vec<(f64, [f64; 2])>,
}

/// Line through the points of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Line {
    /// Solid line.
    #[default]
    Solid,
    /// Long dashes.
    Dashed,
    /// Short dashes.
    Dotted,
    /// No line.
    None,
}

/// Mark at each point of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Filled circle.
    #[default]
    Dot,
    /// Open square, for measurements.
    Square,
    /// Open diamond, for numbers of a paper.
    Diamond,
    /// No mark, for many points.
    None,
}

impl Curve {
    /// Creates the curve with index `nth`: a solid line with a dot at each point.
    pub fn new(nth: usize, label: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            label: label.to_owned(),
            color: COLORS[nth % COLORS.len()],
            points,
            ..Self::default()
        }
    }

    /// Creates a curve of a paper's own numbers: marks without a line.
    pub fn of_paper(label: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            label: label.to_owned(),
            color: INK,
            line: Line::None,
            mark: Mark::Diamond,
            points,
            ..Self::default()
        }
    }

    /// Returns the curve with another line.
    #[must_use]
    pub fn line(self, line: Line) -> Self {
        Self { line, ..self }
    }

    /// Returns the curve with another mark.
    #[must_use]
    pub fn mark(self, mark: Mark) -> Self {
        Self { mark, ..self }
    }

    /// Returns the curve in another color.
    #[must_use]
    pub fn color(self, color: [u8; 3]) -> Self {
        Self { color, ..self }
    }

    /// Returns the curve as steps, each of which lasts until the next point, and the last one for `last`.
    #[must_use]
    pub fn steps(mut self, last: f64) -> Self {
        let ends = self.points.iter().skip(1).map(|point| point.0);
        let end = self.points.last().map(|point| point.0 + last);
        let steps = self.points.iter().zip(ends.chain(end));
        self.points = steps
            .flat_map(|((from, value), till)| [(*from, *value), (till, *value)])
            .collect();
        self
    }

    /// Draws the line through points of the canvas. `extra` pixels of width keep it visible below others.
    pub(crate) fn stroke(&self, canvas: &mut Canvas, points: &[(f32, f32)], extra: f32) {
        let (width, dashes): (_, Dashes) = match self.line {
            Line::Solid => (2.4, &[]),
            Line::Dashed => (1.8, &[9.0, 6.0]),
            Line::Dotted => (1.8, &[2.0, 4.0]),
            Line::None => return,
        };
        if points.len() > 1 {
            let width = width + extra;
            canvas.stroke(points, self.color, Stroke { width, dashes });
        }
    }

    /// Draws the mark at a point of the canvas.
    pub(crate) fn draw_mark(&self, canvas: &mut Canvas, (x, y): (f32, f32), extra: f32) {
        let half = 4.5 + extra * 0.6;
        let path = match self.mark {
            Mark::Dot => return canvas.dot((x, y), half, self.color),
            Mark::Square => rectangle((x - 6.0, y - 6.0), 12.0, 12.0),
            Mark::Diamond => polygon(&[(x - 8.0, y), (x, y - 8.0), (x + 8.0, y), (x, y + 8.0)]),
            Mark::None => return,
        };
        canvas.outline(&path, self.color);
    }

    /// Draws an interval between two points of the canvas. It has caps unless it is at a point of the curve.
    pub(crate) fn interval(&self, canvas: &mut Canvas, x: f32, ends: [f32; 2]) {
        canvas.line(&ends.map(|y| (x, y)), self.color, 1.8);
        if !self.points.is_empty() {
            return;
        }
        for y in ends {
            canvas.line(&[(x - 6.0, y), (x + 6.0, y)], self.color, 1.8);
        }
    }

    /// Draws a sample of the curve that is `width` pixels wide.
    pub(crate) fn sample(&self, canvas: &mut Canvas, (x, y): (f32, f32), width: f32) {
        self.stroke(canvas, &[(x, y), (x + width, y)], 0.0);
        let middle = x + width / 2.0;
        if self.points.is_empty() && !self.intervals.is_empty() {
            self.interval(canvas, middle, [y - 8.0, y + 8.0]);
        } else {
            self.draw_mark(canvas, (middle, y), 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_last_until_the_next_point() {
        let curve = Curve::new(0, "a", vec![(0.0, 1.0), (2.0, 3.0)]).steps(5.0);
        assert_eq!(
            curve.points,
            [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0), (7.0, 3.0)]
        );
    }
}
