//! Panel of a sheet: curves over one pair of axes, each with its label to the right of the data.
//!
//! Where a curve runs below another curve, it is drawn wider, so that both can be seen.

use crate::axis::{GRID, MARK, Scale, number};
use crate::canvas::{Anchor, Canvas, INK};
use crate::curve::{Curve, Line, Mark};
use crate::labels::{LabelPosition, spread, wrap};

/// Curves over one pair of axes.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Title above the panel; empty for none.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves. Later ones are drawn above earlier ones.
    pub curves: Vec<Curve>,
    /// Horizontal reference lines, each with its label.
    pub levels: Vec<(String, f64)>,
}

/// Axis of a panel: its label, and its values.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// Label of the axis.
    pub label: String,
    /// True for a logarithmic axis.
    pub is_log: bool,
    /// Start of a linear axis.
    pub start: Start,
    /// Largest value that is drawn; `None` for the largest value of the data.
    pub end: Option<f64>,
}

/// Start of a linear axis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Start {
    /// Zero.
    #[default]
    Zero,
    /// Zero if it is near the data, otherwise the smallest value of the data, with a margin.
    Near,
    /// Smallest value of the data, with a margin.
    Data,
    /// Given value.
    At(f64),
}

impl Axis {
    /// Creates a linear axis from zero on.
    pub fn new(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            ..Self::default()
        }
    }

    /// Creates a linear axis that starts at zero if the data begin near it.
    pub fn across(label: &str) -> Self {
        Self {
            start: Start::Near,
            ..Self::new(label)
        }
    }

    /// Creates a linear axis around the data.
    pub fn around(label: &str) -> Self {
        Self {
            start: Start::Data,
            ..Self::new(label)
        }
    }

    /// Creates a logarithmic axis around the data.
    pub fn log(label: &str) -> Self {
        Self {
            is_log: true,
            ..Self::new(label)
        }
    }

    /// Returns the axis with another end.
    #[must_use]
    pub fn till(self, end: f64) -> Self {
        Self {
            end: Some(end),
            ..self
        }
    }

    /// Returns the scale that covers `values` with a margin, at `places`.
    fn scale(
        &self,
        values: impl Iterator<Item = f64> + Clone,
        places: std::ops::RangeInclusive<f32>,
    ) -> Scale {
        let is_fit = |value: &f64| !self.is_log || *value > 0.0;
        let values = values.filter(is_fit);
        let most = values.clone().fold(f64::MIN, f64::max);
        let least = values.fold(f64::MAX, f64::min);
        if most < least {
            return Scale::linear(0.0..=1.0, places);
        }
        if self.is_log {
            let end = self.end.unwrap_or(most * 1.12);
            return Scale::log(least.min(end / 1.5) * 0.9..=end, places);
        }
        let span = (most - least).max(most.abs() * 1e-3).max(1e-3);
        let start = match self.start {
            Start::Zero => least.min(0.0),
            Start::Near if least < most * NEAR_ZERO => least.min(0.0),
            Start::Near | Start::Data => least - span * 0.06,
            Start::At(start) => start,
        };
        let margin = (most - start).max(span * 0.1) * 0.05;
        let end = self.end.unwrap_or(most + margin);
        Scale::linear(start..=end, places)
    }
}

/// Area of a panel's data on the canvas, and the frame around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) left: f32,
    pub(crate) right: f32,
    pub(crate) top: f32,
    pub(crate) bottom: f32,
    /// True if labels are to the right; false if a key names the curves.
    pub(crate) has_labels: bool,
    /// True if the label of the horizontal axis is drawn.
    pub(crate) has_below: bool,
}

impl Panel {
    /// Returns the width that the labels beside the curves need.
    pub(crate) fn labels_width(&self, canvas: &Canvas) -> f32 {
        let labels = self.labels();
        let widths = labels.iter().flat_map(|curve| lines(canvas, &curve.label));
        let widest = widths.fold(0.0, |most, line| f32::max(most, canvas.width(&line, SIZE)));
        widest + LEADER + SAMPLE + 16.0
    }

    /// Returns a curve for each label: the curves, and the reference lines.
    pub(crate) fn labels(&self) -> Vec<Curve> {
        let curves = self.curves.iter().filter(|curve| !curve.label.is_empty());
        let levels = self.levels.iter().map(|(label, _)| level(label));
        curves.cloned().chain(levels).collect()
    }

    /// Draws the panel.
    pub(crate) fn draw(&self, canvas: &mut Canvas, frame: &Frame) {
        let scales = self.scales(frame);
        self.axes(canvas, frame, &scales);
        let [x, y] = &scales;
        for (label, value) in &self.levels {
            let at = y.at(*value);
            level(label).stroke(canvas, &[(frame.left, at), (frame.right, at)], 0.0);
        }
        let on_canvas = |curve: &Curve| -> Vec<(f32, f32)> {
            let points = curve.points.iter();
            points.map(|point| (x.at(point.0), y.at(point.1))).collect()
        };
        let all: Vec<Vec<(f32, f32)>> = self.curves.iter().map(on_canvas).collect();
        let extra = self.extra_widths(&all);
        // marks without a line are above all lines
        let is_line = |nth: &usize| self.curves[*nth].line != Line::None;
        let (lines, marks): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(is_line);
        for nth in lines.into_iter().chain(marks) {
            let (curve, points) = (&self.curves[nth], &all[nth]);
            for piece in pieces(points, frame) {
                curve.stroke(canvas, &piece, 0.0);
            }
            for (wide, extra) in wide_parts(points, &extra[nth]) {
                for piece in pieces(&wide, frame) {
                    curve.stroke(canvas, &piece, extra);
                }
            }
            for (at, ends) in &curve.intervals {
                let ends = ends.map(|end| y.at(end).clamp(frame.top, frame.bottom));
                curve.interval(canvas, x.at(*at) + self.dodge(nth), ends);
            }
            for (point, extra) in points.iter().zip(&extra[nth]) {
                if is_inside(point.1, frame) {
                    curve.draw_mark(canvas, *point, *extra);
                }
            }
        }
        if frame.has_labels {
            self.direct_labels(canvas, frame, &scales, &all);
        }
    }

    fn scales(&self, frame: &Frame) -> [Scale; 2] {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let intervals = self.curves.iter().flat_map(|curve| &curve.intervals);
        let xs = points.clone().map(|point| point.0);
        let xs = xs.chain(intervals.clone().map(|interval| interval.0));
        let ys = points.map(|point| point.1);
        let ys = ys.chain(intervals.flat_map(|interval| interval.1));
        let ys = ys.chain(self.levels.iter().map(|level| level.1));
        let x = self.x.scale(xs, frame.left..=frame.right);
        [x, self.y.scale(ys, frame.bottom..=frame.top)]
    }

    fn axes(&self, canvas: &mut Canvas, frame: &Frame, [x, y]: &[Scale; 2]) {
        let Frame {
            left,
            right,
            top,
            bottom,
            ..
        } = *frame;
        let most = |length: f32, each: f32| ((length / each) as i32).clamp(2, 12).unsigned_abs();
        for tick in x.ticks(most(right - left, 58.0)) {
            let at = x.at(tick);
            canvas.line(&[(at, top), (at, bottom)], GRID, 1.0);
            let below = (at, bottom + 24.0);
            canvas.text(&number(tick), below, SIZE, Anchor::Middle);
        }
        let mut widest = 0.0;
        for tick in y.ticks(most(bottom - top, 34.0)) {
            let at = y.at(tick);
            canvas.line(&[(left, at), (right, at)], GRID, 1.0);
            let beside = (left - 10.0, at + 6.0);
            canvas.text(&number(tick), beside, SIZE, Anchor::End);
            widest = f32::max(widest, canvas.width(&number(tick), SIZE));
        }
        canvas.line(&[(left, top), (left, bottom), (right, bottom)], INK, 1.5);
        let middle = f32::midpoint(left, right);
        canvas.text(&self.title, (middle, top - 14.0), 19.0, Anchor::Middle);
        if frame.has_below {
            canvas.text(&self.x.label, (middle, bottom + 56.0), 19.0, Anchor::Middle);
        }
        let beside = (
            left - (widest + 28.0).min(LABEL_ROOM),
            f32::midpoint(top, bottom),
        );
        canvas.text(&self.y.label, beside, 19.0, Anchor::Upright);
    }

    /// Returns the horizontal shift of a curve's intervals, so that the intervals of several curves do not overlap.
    fn dodge(&self, nth: usize) -> f32 {
        let is_apart = |curve: &&Curve| curve.points.is_empty() && !curve.intervals.is_empty();
        let all = self.curves.iter().filter(is_apart).count();
        let before = self.curves[..nth].iter().filter(is_apart).count();
        if is_apart(&&self.curves[nth]) {
            (before as f32 - (all as f32 - 1.0) / 2.0) * DODGE
        } else {
            0.0
        }
    }

    /// Returns the additional width of each curve at each of its points, where later curves would hide it.
    fn extra_widths(&self, all: &[Vec<(f32, f32)>]) -> Vec<Vec<f32>> {
        let zeros = all.iter().map(|points| vec![0.0; points.len()]);
        let mut extra: Vec<Vec<f32>> = zeros.collect();
        let has_line = |nth: usize| self.curves[nth].line != Line::None;
        for nth in (0..all.len()).rev().filter(|nth| has_line(*nth)) {
            for above in (nth + 1..all.len()).filter(|nth| has_line(*nth)) {
                for (at, point) in all[nth].iter().enumerate() {
                    let near = |(from, ends): (usize, &[(f32, f32)])| {
                        let is_near = distance(*point, ends[0], ends[1]) < NEAR;
                        let wide = extra[above][from].min(extra[above][from + 1]);
                        is_near.then_some(wide + EXTRA)
                    };
                    let widths = all[above].windows(2).enumerate().filter_map(near);
                    let wide = widths.fold(extra[nth][at], f32::max);
                    extra[nth][at] = wide.min(EXTRA_MAX);
                }
            }
        }
        extra
    }

    /// Draws the label of each curve and of each reference line, joined to its right end.
    fn direct_labels(
        &self,
        canvas: &mut Canvas,
        frame: &Frame,
        [x, y]: &[Scale; 2],
        all: &[Vec<(f32, f32)>],
    ) {
        let right = frame.right;
        let of_curve = |(curve, points): (&Curve, &Vec<(f32, f32)>)| {
            let last = pieces(points, frame).into_iter().flatten().last();
            let interval = curve.intervals.last();
            let interval = interval.map(|(at, ends)| (x.at(*at), y.at(ends[1])));
            let only = points.iter().rfind(|point| is_inside(point.1, frame));
            (curve.clone(), last.or_else(|| only.copied()).or(interval))
        };
        let named = self.curves.iter().zip(all);
        let named = named.filter(|(curve, _)| !curve.label.is_empty());
        let levels = self.levels.iter();
        let levels = levels.map(|(label, value)| (level(label), Some((right, y.at(*value)))));
        let ends: Vec<_> = named.map(of_curve).chain(levels).collect();
        let texts = ends.iter().map(|(curve, _)| lines(canvas, &curve.label));
        let texts: Vec<Vec<String>> = texts.collect();
        let wishes = ends
            .iter()
            .zip(&texts)
            .map(|((_, end), text)| LabelPosition {
                at: end.map_or(frame.bottom, |end| end.1),
                height: text.len() as f32 * LINE + 5.0,
            });
        let wishes: Vec<LabelPosition> = wishes.collect();
        let places = spread(&wishes, (frame.top - 16.0, frame.bottom + 16.0));
        for (((curve, end), text), at) in ends.iter().zip(&texts).zip(places) {
            let start = right + LEADER;
            let is_line = curve.line != Line::None;
            if let Some((x, y)) = end
                && (is_line || right - x < FAR)
            {
                let gap = (right - x).min(8.0);
                let from = (x + gap, *y);
                canvas.line(&[from, (start - 4.0, at)], lighter(curve.color), 1.0);
            }
            curve.sample(canvas, (start, at), SAMPLE);
            let first = at - (text.len() - 1) as f32 * LINE / 2.0 + 6.0;
            for (nth, line) in text.iter().enumerate() {
                let place = (start + SAMPLE + 10.0, first + nth as f32 * LINE);
                canvas.text(line, place, SIZE, Anchor::Start);
            }
        }
    }
}

/// Returns the curve whose style represents a reference line.
fn level(label: &str) -> Curve {
    Curve {
        label: label.to_owned(),
        color: MARK,
        line: Line::Dotted,
        mark: Mark::None,
        ..Curve::default()
    }
}

/// Returns the lines of a label.
fn lines(canvas: &Canvas, label: &str) -> Vec<String> {
    wrap(label, LABEL_MAX, |text| canvas.width(text, SIZE))
}

/// Returns the parts of a line that have an additional width, with that width.
fn wide_parts(points: &[(f32, f32)], extra: &[f32]) -> Vec<(Vec<(f32, f32)>, f32)> {
    let mut parts: Vec<(Vec<(f32, f32)>, f32)> = Vec::new();
    for (ends, widths) in points.windows(2).zip(extra.windows(2)) {
        let width = widths[0].min(widths[1]);
        match parts.last_mut() {
            Some((part, before)) if before.total_cmp(&width).is_eq() => part.push(ends[1]),
            Some(_) | None => parts.push((ends.to_vec(), width)),
        }
    }
    parts.retain(|part| part.1 > 0.0);
    parts
}

/// Returns the distance of a point from the line between two others.
fn distance(point: (f32, f32), from: (f32, f32), till: (f32, f32)) -> f32 {
    let (dx, dy) = (till.0 - from.0, till.1 - from.1);
    let (px, py) = (point.0 - from.0, point.1 - from.1);
    let square = dx.mul_add(dx, dy * dy).max(1e-6);
    let share = (px.mul_add(dx, py * dy) / square).clamp(0.0, 1.0);
    (px - share * dx).hypot(py - share * dy)
}

fn is_inside(y: f32, frame: &Frame) -> bool {
    (frame.top - 0.5..=frame.bottom + 0.5).contains(&y)
}

/// Returns the parts of a line that are within the frame, cut where it leaves.
fn pieces(points: &[(f32, f32)], frame: &Frame) -> Vec<Vec<(f32, f32)>> {
    let mut pieces: Vec<Vec<(f32, f32)>> = vec![Vec::new()];
    let mut before: Option<(f32, f32)> = None;
    for point in points {
        if let Some(before) = before
            && is_inside(before.1, frame) != is_inside(point.1, frame)
        {
            let outside = if is_inside(before.1, frame) {
                point.1
            } else {
                before.1
            };
            let edge = if outside < frame.top {
                frame.top
            } else {
                frame.bottom
            };
            let share = (edge - before.1) / (point.1 - before.1);
            let cut = (before.0 + share * (point.0 - before.0), edge);
            if !is_inside(before.1, frame) {
                pieces.push(Vec::new());
            }
            if let Some(piece) = pieces.last_mut() {
                piece.push(cut);
            }
        }
        if is_inside(point.1, frame)
            && let Some(piece) = pieces.last_mut()
        {
            piece.push(*point);
        }
        before = Some(*point);
    }
    pieces
}

/// Returns a color between `color` and white.
fn lighter(color: [u8; 3]) -> [u8; 3] {
    color.map(|part| 255 - (255 - part) / 2)
}

/// Size of text, in pixels.
pub(crate) const SIZE: f32 = 17.0;
/// Height of a line of text, in pixels.
const LINE: f32 = 21.0;
/// Width of the lines from curves to their labels.
const LEADER: f32 = 34.0;
/// Width of the sample before a label.
pub(crate) const SAMPLE: f32 = 34.0;
/// Maximum distance between the vertical axis and its label, so that the label stays on the sheet.
const LABEL_ROOM: f32 = 84.0;
/// Longest line of a label.
const LABEL_MAX: f32 = 230.0;
/// Distance below which a curve hides another curve.
const NEAR: f32 = 2.5;
/// Additional width of a hidden curve for each curve above it, in pixels.
const EXTRA: f32 = 3.0;
/// Maximum of the additional width of a hidden curve, in pixels.
const EXTRA_MAX: f32 = 12.0;
/// Distance from the right edge above which no line joins a mark to its label.
const FAR: f32 = 60.0;
/// Part of the largest value below which data begin near zero.
const NEAR_ZERO: f64 = 0.15;
/// Distance between intervals of several curves at one place.
const DODGE: f32 = 15.0;

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame {
        left: 0.0,
        right: 100.0,
        top: 0.0,
        bottom: 100.0,
        has_labels: false,
        has_below: false,
    };

    #[test]
    fn lines_are_cut_at_the_frame() {
        let pieces = pieces(&[(0.0, 50.0), (10.0, -50.0), (20.0, 50.0)], &FRAME);
        assert_eq!(
            pieces,
            [[(0.0, 50.0), (5.0, 0.0)], [(15.0, 0.0), (20.0, 50.0)]]
        );
    }

    #[test]
    fn hidden_parts_are_wider_than_the_covering_curves() {
        let curve = || Curve::new(0, "a", Vec::new());
        let panel = Panel {
            curves: vec![curve(), curve()],
            ..Panel::default()
        };
        let below = vec![(0.0, 10.0), (10.0, 10.0), (20.0, 10.0), (30.0, 50.0)];
        let above = vec![(0.0, 10.0), (30.0, 10.0)];
        let extra = panel.extra_widths(&[below.clone(), above]);
        assert_eq!(extra, [vec![EXTRA, EXTRA, EXTRA, 0.0], vec![0.0, 0.0]]);
        let parts = wide_parts(&below, &extra[0]);
        assert_eq!(parts, [(below[..3].to_vec(), EXTRA)]);
    }

    #[test]
    fn axes_cover_their_data() {
        let values = || [0.5, 0.9].into_iter();
        let ends = |axis: &Axis| {
            let scale = axis.scale(values(), 0.0..=1.0);
            (*scale.values.start(), *scale.values.end())
        };
        let is = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        assert!(is(ends(&Axis::new("a")).0, 0.0));
        let (from, till) = ends(&Axis::around("a"));
        assert!((0.45..0.5).contains(&from) && (0.9..0.95).contains(&till));
        assert!(is(ends(&Axis::around("a").till(0.7)).1, 0.7));
        let (from, till) = ends(&Axis::log("a"));
        assert!((0.4..0.5).contains(&from) && (0.9..1.1).contains(&till));
        let nothing = Axis::log("a").scale(std::iter::empty(), 0.0..=1.0);
        assert!(nothing.values.start() < nothing.values.end());
    }
}
