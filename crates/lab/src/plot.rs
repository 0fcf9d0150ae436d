//! Picture of a figure: curves over one axis, as PNG.

use tiny_skia::{PathBuilder, Rect, Stroke, StrokeDash};

use crate::axis::{COLORS, GRID, Scale};
use crate::canvas::{Anchor, Canvas, INK};
use crate::error::{Error, Result};
use crate::plan::{Plan, Variable};
use crate::shared_link_plan::{self, SharedLinkPlan};
use crate::table::{EMULATION, EXPECTED, MODEL, SIMULATION, Table};

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &Plan, table: &Table) -> Result<Vec<u8>> {
    let mut chart = Chart::new(plan);
    if plan.spread.is_some() {
        let numbers = table.rows.iter().flat_map(|row| row.iter().skip(1));
        let top = numbers.flatten().copied().fold(0.0, f64::max);
        chart.y = Scale::linear(0.0..=top * 1.1, BOTTOM..=TOP);
    }
    chart.axes([&plan.title, plan.axis(), plan.beside()]);
    for mark in &plan.marks {
        chart.mark(&mark.label, mark.mbps);
    }
    let mut key = Key::default();
    for (nth, series) in plan.series.iter().enumerate() {
        let color = COLORS[nth % COLORS.len()];
        key.entries
            .push((series.label.clone(), color, Style::Simulation));
        for style in STYLES {
            let points = table.points(&format!("{}{}", series.name, style.column()));
            if !points.is_empty() {
                let color = if style.is_predicted() { INK } else { color };
                chart.curve(&points, color, style);
                key.styles |= 1 << style as u8;
            }
        }
    }
    chart.key(key);
    chart.png(&plan.name)
}

/// Draws the table of a crowd. Returns a PNG image.
pub fn plot_shared_link(crowd: &SharedLinkPlan, table: &Table) -> Result<Vec<u8>> {
    let keys = table.rows.iter().filter_map(|row| row.first().copied()?);
    let last = keys.clone().fold(1.0, f64::max);
    let first = keys.fold(last, f64::min);
    let (across, beside, x, top) = match &crowd.vary {
        shared_link_plan::Variable::Link(_) => (
            "link, Mb/s",
            "utilisation, %",
            Scale::log(first * 0.8..=last * 1.25, LEFT..=RIGHT),
            105.0,
        ),
        shared_link_plan::Variable::Time(link) => (
            "time, s",
            "goodput, Mb/s",
            Scale::linear(0.0..=last, LEFT..=RIGHT),
            link.as_mbps_f64() * 1.05,
        ),
    };
    let mut chart = Chart {
        canvas: Canvas::new(WIDTH, HEIGHT),
        x,
        y: Scale::linear(0.0..=top, BOTTOM..=TOP),
    };
    chart.axes([&crowd.title, across, beside]);
    let mut key = Key::default();
    for (nth, flow) in crowd.flows.iter().enumerate() {
        let (color, style) = (COLORS[nth % COLORS.len()], Style::Simulation);
        key.entries.push((flow.label.clone(), color, style));
        let points = table.points(&format!("{}{}", flow.name, style.column()));
        chart.curve(&points, color, style);
    }
    chart.key(key);
    chart.png(&crowd.name)
}

/// Draws curves over time, each with its label and points. The first curve is the reference, drawn
/// dashed. Returns a PNG image.
pub(crate) fn plot_over_time(
    [name, title, beside]: [&str; 3],
    curves: &[(String, Vec<(f64, f64)>)],
) -> Result<Vec<u8>> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let most = points().fold((0.0, 0.0), |most: (f64, f64), point| {
        (most.0.max(point.0), most.1.max(point.1))
    });
    let mut chart = Chart {
        canvas: Canvas::new(WIDTH, HEIGHT),
        // The legend is to the right of all points.
        x: Scale::linear(0.0..=most.0 * 1.25, LEFT..=RIGHT),
        y: Scale::linear(0.0..=most.1 * 1.1, BOTTOM..=TOP),
    };
    chart.axes([title, "time, s", beside]);
    let mut key = Key::default();
    for (nth, (label, points)) in curves.iter().enumerate() {
        let (color, style) = match nth.checked_sub(1) {
            None => (INK, Style::Model),
            Some(nth) => (COLORS[nth % COLORS.len()], Style::Line),
        };
        key.entries.push((label.clone(), color, style));
        chart.curve(points, color, style);
    }
    chart.key(key);
    chart.png(name)
}

/// Scale of the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Across {
    Linear,
    Log,
    /// Linear, for curves with too many points to mark.
    Time,
}

/// Draws measured curves, each with its label and points. Takes the picture's name and title, and
/// the labels of both axes. Returns a PNG image.
pub(crate) fn plot_measured(
    [name, title, below, beside]: [&str; 4],
    curves: &[(String, Vec<(f64, f64)>)],
    across: Across,
) -> Result<Vec<u8>> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let top = points().map(|point| point.1).fold(0.0, f64::max);
    let last = points().map(|point| point.0).fold(0.0, f64::max);
    let first = points().map(|point| point.0).fold(last, f64::min);
    // The legend is to the right of all points.
    let x = match across {
        Across::Log => {
            let room = (last / first).powf(KEY_ROOM);
            Scale::log(first * 0.9..=last * room, LEFT..=RIGHT)
        }
        Across::Linear | Across::Time => Scale::linear(0.0..=last * (1.0 + KEY_ROOM), LEFT..=RIGHT),
    };
    let mut chart = Chart {
        canvas: Canvas::new(WIDTH, HEIGHT),
        x,
        y: Scale::linear(0.0..=top * 1.1, BOTTOM..=TOP),
    };
    chart.axes([title, below, beside]);
    let style = if across == Across::Time {
        Style::Line
    } else {
        Style::Simulation
    };
    let mut key = Key::default();
    for (nth, (label, points)) in curves.iter().enumerate() {
        let color = COLORS[nth % COLORS.len()];
        key.entries.push((label.clone(), color, style));
        chart.curve(points, color, style);
    }
    chart.key(key);
    chart.png(name)
}

/// Origin of a curve, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Model,
    Expected,
    Simulation,
    Emulation,
    /// Simulation with too many points to mark.
    Line,
}

impl Style {
    const fn is_predicted(self) -> bool {
        matches!(self, Self::Model | Self::Expected)
    }

    const fn column(self) -> &'static str {
        match self {
            Self::Model => MODEL,
            Self::Expected => EXPECTED,
            Self::Simulation | Self::Line => SIMULATION,
            Self::Emulation => EMULATION,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Model => "model (paper's equations)",
            Self::Expected => "model, exact mean of blasts",
            Self::Simulation | Self::Line => "simulation",
            Self::Emulation => "emulation",
        }
    }

    fn stroke(self) -> Stroke {
        let (width, dash) = match self {
            Self::Model => (1.6, StrokeDash::new(vec![9.0, 6.0], 0.0)),
            Self::Expected => (1.6, StrokeDash::new(vec![2.0, 4.0], 0.0)),
            Self::Simulation | Self::Emulation => (3.0, None),
            Self::Line => (2.0, None),
        };
        Stroke {
            width,
            dash,
            ..Stroke::default()
        }
    }
}

/// Styles in drawing order: predictions are drawn above the simulation.
const STYLES: [Style; 4] = [
    Style::Simulation,
    Style::Model,
    Style::Expected,
    Style::Emulation,
];

/// Content of the legend: curves, and the used styles as a bit set.
#[derive(Debug, Default)]
struct Key {
    entries: Vec<(String, [u8; 3], Style)>,
    styles: u8,
}

struct Chart {
    canvas: Canvas,
    x: Scale,
    y: Scale,
}

impl Chart {
    fn new(plan: &Plan) -> Self {
        let first = plan.values.first().copied().unwrap_or(1) as f64 / 1e6;
        let last = plan.values.last().copied().unwrap_or(1) as f64 / 1e6;
        let (x, top) = match plan.vary {
            Variable::Rate => (Scale::linear(0.0..=last * 1.1, LEFT..=RIGHT), last * 1.1),
            Variable::Object => (Scale::log(first * 0.8..=last * 1.25, LEFT..=RIGHT), 700.0),
        };
        let y = Scale::linear(0.0..=top, BOTTOM..=TOP);
        let canvas = Canvas::new(WIDTH, HEIGHT);
        Self { canvas, x, y }
    }

    fn axes(&mut self, [title, below, beside]: [&str; 3]) {
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

    fn mark(&mut self, label: &str, mbps: f64) {
        let y = self.y.at(mbps);
        let dash = StrokeDash::new(vec![3.0, 5.0], 0.0);
        let stroke = Stroke {
            width: 1.5,
            dash,
            ..Stroke::default()
        };
        self.canvas.stroke(&[(LEFT, y), (RIGHT, y)], MARK, &stroke);
        self.canvas
            .text(label, (LEFT + 14.0, y - 8.0), 18.0, Anchor::Start);
    }

    fn curve(&mut self, points: &[(f64, f64)], color: [u8; 3], style: Style) {
        let points: Vec<_> = points
            .iter()
            .map(|(x, y)| (self.x.at(*x), self.y.at(*y)))
            .collect();
        self.sample(&points, color, style);
    }

    /// Draws points of the canvas as a curve of this style.
    fn sample(&mut self, points: &[(f32, f32)], color: [u8; 3], style: Style) {
        if style != Style::Emulation {
            self.canvas.stroke(points, color, &style.stroke());
        }
        for (x, y) in points {
            match style {
                Style::Model | Style::Expected | Style::Line => {}
                Style::Simulation => self
                    .canvas
                    .fill(PathBuilder::from_circle(*x, *y, 5.0), color),
                Style::Emulation => {
                    let square = Rect::from_xywh(x - 7.0, y - 7.0, 14.0, 14.0);
                    let square = square.map(PathBuilder::from_rect);
                    self.canvas.fill(square.clone(), [255; 3]);
                    self.canvas.outline(square, color);
                }
            }
        }
    }

    fn png(&self, name: &str) -> Result<Vec<u8>> {
        let png = self.canvas.png();
        png.map_err(|why| Error::Misuse(format!("{name}: {why}")))
    }

    fn key(&mut self, mut key: Key) {
        for style in STYLES {
            if key.styles & (1 << style as u8) != 0 {
                let color = if style.is_predicted() { INK } else { MARK };
                key.entries.push((style.label().into(), color, style));
            }
        }
        let widest = key
            .entries
            .iter()
            .map(|(label, ..)| self.canvas.width(label, 19.0));
        let width = widest.fold(0.0, f32::max) + 90.0;
        let height = key.entries.len() as f32 * 30.0 + 18.0;
        let (left, top) = (RIGHT - width - 20.0, BOTTOM - height - 20.0);
        let frame = Rect::from_xywh(left, top, width, height).map(PathBuilder::from_rect);
        self.canvas.fill(frame.clone(), [255; 3]);
        self.canvas.outline(frame, GRID);
        for (nth, (label, color, style)) in key.entries.iter().enumerate() {
            let y = top + 24.0 + nth as f32 * 30.0;
            let middle = left + 40.0;
            if *style == Style::Emulation {
                self.sample(&[(middle, y)], *color, *style);
            } else {
                self.canvas.stroke(
                    &[(left + 15.0, y), (left + 65.0, y)],
                    *color,
                    &style.stroke(),
                );
            }
            if *style == Style::Simulation {
                self.canvas
                    .fill(PathBuilder::from_circle(middle, y, 5.0), *color);
            }
            self.canvas
                .text(label, (left + 78.0, y + 7.0), 19.0, Anchor::Start);
        }
    }
}

/// Width of the legend, as a part of the curves' width.
const KEY_ROOM: f64 = 0.62;
const WIDTH: u32 = 1200;
const HEIGHT: u32 = 780;
const LEFT: f32 = 110.0;
const RIGHT: f32 = 1165.0;
const TOP: f32 = 80.0;
const BOTTOM: f32 = 680.0;
/// Limit of ticks on an axis.
const TICKS: u32 = 11;
const MARK: [u8; 3] = [110, 110, 110];
