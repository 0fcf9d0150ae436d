//! Chart: curves over one pair of axes, with a legend, as PNG.
//!
//! [`plot_measured`] and [`plot_over_time`] draw whole figures; [`Chart`] is for others. Equal
//! input gives the same pixels on every host, so that a changed figure means changed numbers.

use std::ops::RangeInclusive;

use crate::axis::{COLORS, GRID, Scale};
use crate::canvas::{Anchor, Canvas, Dashes, INK, Stroke, rectangle};

/// Curves over one pair of axes, with a legend at the lower right.
#[derive(Debug)]
pub struct Chart {
    canvas: Canvas,
    x: Scale,
    y: Scale,
    entries: Vec<Entry>,
}

/// Appearance of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Long dashes, for a reference.
    Dashed,
    /// Short dashes, for a second reference.
    Dotted,
    /// Line with a dot at each point.
    Marked,
    /// Squares without a line, for measurements.
    Squares,
    /// Line without marks, for many points.
    Line,
}

/// Entry of the legend.
#[derive(Clone, Debug)]
struct Entry {
    label: String,
    color: [u8; 3],
    style: Style,
}

/// Scale of the horizontal axis of a chart of measured curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    /// Linear, with a dot at each point.
    Linear,
    /// Logarithmic, with a dot at each point.
    Log,
    /// Linear, for curves with too many points to mark.
    Time,
}

impl Chart {
    /// Creates a chart whose horizontal axis covers `x`, and whose vertical axis covers `y`.
    pub fn linear(x: RangeInclusive<f64>, y: RangeInclusive<f64>) -> Self {
        Self::new(Scale::linear(x, LEFT..=RIGHT), y)
    }

    /// Creates a chart with a logarithmic horizontal axis that covers `x`.
    pub fn log(x: RangeInclusive<f64>, y: RangeInclusive<f64>) -> Self {
        Self::new(Scale::log(x, LEFT..=RIGHT), y)
    }

    fn new(x: Scale, y: RangeInclusive<f64>) -> Self {
        Self {
            canvas: Canvas::new(WIDTH, HEIGHT),
            x,
            y: Scale::linear(y, BOTTOM..=TOP),
            entries: Vec::new(),
        }
    }

    /// Draws the axes. Takes the title, and the labels of the horizontal and the vertical axis.
    pub fn axes(&mut self, [title, below, beside]: [&str; 3]) {
        for value in self.x.ticks(TICKS) {
            let x = self.x.at(value);
            self.canvas.line(&[(x, TOP), (x, BOTTOM)], GRID, 1.0);
            self.canvas.text(
                &format!("{value}"),
                (x, BOTTOM + 28.0),
                19.0,
                Anchor::Middle,
            );
        }
        for value in self.y.ticks(TICKS) {
            let y = self.y.at(value);
            self.canvas.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0);
            self.canvas.text(
                &format!("{value}"),
                (LEFT - 12.0, y + 7.0),
                19.0,
                Anchor::End,
            );
        }
        self.canvas
            .line(&[(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)], INK, 1.5);
        let middle = f32::midpoint(LEFT, RIGHT);
        self.canvas
            .text(title, (middle, 48.0), 26.0, Anchor::Middle);
        self.canvas
            .text(below, (middle, BOTTOM + 68.0), 22.0, Anchor::Middle);
        self.canvas.text(
            beside,
            (36.0, f32::midpoint(TOP, BOTTOM)),
            22.0,
            Anchor::Upright,
        );
    }

    /// Draws a labeled horizontal line at `value`.
    pub fn mark(&mut self, label: &str, value: f64) {
        let y = self.y.at(value);
        let stroke = Stroke {
            width: 1.5,
            dashes: &[3.0, 5.0],
        };
        self.canvas.stroke(&[(LEFT, y), (RIGHT, y)], MARK, stroke);
        self.canvas
            .text(label, (LEFT + 14.0, y - 8.0), 18.0, Anchor::Start);
    }

    /// Draws a curve.
    pub fn curve(&mut self, points: &[(f64, f64)], color: [u8; 3], style: Style) {
        let points: Vec<_> = points
            .iter()
            .map(|(x, y)| (self.x.at(*x), self.y.at(*y)))
            .collect();
        self.sample(&points, color, style);
    }

    /// Draws points of the canvas as a curve of this style.
    fn sample(&mut self, points: &[(f32, f32)], color: [u8; 3], style: Style) {
        if style != Style::Squares {
            self.canvas.stroke(points, color, style.stroke());
        }
        for (x, y) in points {
            match style {
                Style::Dashed | Style::Dotted | Style::Line => {}
                Style::Marked => self.canvas.dot((*x, *y), 5.0, color),
                Style::Squares => {
                    let square = rectangle((x - 7.0, y - 7.0), 14.0, 14.0);
                    self.canvas.fill(&square, [255; 3]);
                    self.canvas.outline(&square, color);
                }
            }
        }
    }

    /// Adds an entry to the legend, below earlier ones.
    pub fn entry(&mut self, label: &str, color: [u8; 3], style: Style) {
        self.entries.push(Entry {
            label: label.to_owned(),
            color,
            style,
        });
    }

    /// Draws the legend above everything else, and encodes the chart as a PNG image.
    pub fn png(mut self) -> Result<Vec<u8>, String> {
        self.legend();
        self.canvas.png()
    }

    fn legend(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        let widest = entries
            .iter()
            .map(|entry| self.canvas.width(&entry.label, 19.0));
        let width = widest.fold(0.0, f32::max) + 90.0;
        let height = entries.len() as f32 * 30.0 + 18.0;
        let (left, top) = (RIGHT - width - 20.0, BOTTOM - height - 20.0);
        let frame = rectangle((left, top), width, height);
        self.canvas.fill(&frame, [255; 3]);
        self.canvas.outline(&frame, GRID);
        for (nth, entry) in entries.iter().enumerate() {
            let y = top + 24.0 + nth as f32 * 30.0;
            let middle = left + 40.0;
            if entry.style == Style::Squares {
                self.sample(&[(middle, y)], entry.color, entry.style);
            } else {
                self.canvas.stroke(
                    &[(left + 15.0, y), (left + 65.0, y)],
                    entry.color,
                    entry.style.stroke(),
                );
            }
            if entry.style == Style::Marked {
                self.canvas.dot((middle, y), 5.0, entry.color);
            }
            self.canvas
                .text(&entry.label, (left + 78.0, y + 7.0), 19.0, Anchor::Start);
        }
    }
}

impl Style {
    const fn stroke(self) -> Stroke {
        let (width, dashes): (_, Dashes) = match self {
            Self::Dashed => (1.6, &[9.0, 6.0]),
            Self::Dotted => (1.6, &[2.0, 4.0]),
            Self::Marked | Self::Squares => (3.0, &[]),
            Self::Line => (2.0, &[]),
        };
        Stroke { width, dashes }
    }
}

/// Draws curves over time, each with its label and points. Takes the title, and the label of the
/// vertical axis. The first curve is the reference, drawn dashed. Returns a PNG image.
pub fn plot_over_time(
    [title, beside]: [&str; 2],
    curves: &[(String, Vec<(f64, f64)>)],
) -> Result<Vec<u8>, String> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let most = points().fold((0.0, 0.0), |most: (f64, f64), point| {
        (most.0.max(point.0), most.1.max(point.1))
    });
    // The legend is to the right of all points.
    let mut chart = Chart::linear(0.0..=most.0 * 1.25, 0.0..=most.1 * 1.1);
    chart.axes([title, "time, s", beside]);
    for (nth, (label, points)) in curves.iter().enumerate() {
        let (color, style) = match nth.checked_sub(1) {
            None => (INK, Style::Dashed),
            Some(nth) => (COLORS[nth % COLORS.len()], Style::Line),
        };
        chart.entry(label, color, style);
        chart.curve(points, color, style);
    }
    chart.png()
}

/// Draws measured curves, each with its label and points. Takes the title, and the labels of the
/// horizontal and the vertical axis. Returns a PNG image.
pub fn plot_measured(
    labels: [&str; 3],
    curves: &[(String, Vec<(f64, f64)>)],
    across: Across,
) -> Result<Vec<u8>, String> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let top = points().map(|point| point.1).fold(0.0, f64::max);
    let last = points().map(|point| point.0).fold(0.0, f64::max);
    let first = points().map(|point| point.0).fold(last, f64::min);
    let y = 0.0..=top * 1.1;
    // The legend is to the right of all points.
    let mut chart = match across {
        Across::Log => {
            let room = (last / first).powf(LEGEND_ROOM);
            Chart::log(first * 0.9..=last * room, y)
        }
        Across::Linear | Across::Time => Chart::linear(0.0..=last * (1.0 + LEGEND_ROOM), y),
    };
    chart.axes(labels);
    let style = if across == Across::Time {
        Style::Line
    } else {
        Style::Marked
    };
    for (nth, (label, points)) in curves.iter().enumerate() {
        let color = COLORS[nth % COLORS.len()];
        chart.entry(label, color, style);
        chart.curve(points, color, style);
    }
    chart.png()
}

/// Width of the legend, as a part of the curves' width.
const LEGEND_ROOM: f64 = 0.62;
const WIDTH: u32 = 1200;
const HEIGHT: u32 = 780;
const LEFT: f32 = 110.0;
const RIGHT: f32 = 1165.0;
const TOP: f32 = 80.0;
const BOTTOM: f32 = 680.0;
/// Limit of ticks on an axis.
const TICKS: u32 = 11;
/// Color of marks, and of legend entries that explain a style.
pub const MARK: [u8; 3] = [110, 110, 110];
