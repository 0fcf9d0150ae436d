//! The picture of a figure of slabs: panels one above the other.

use tiny_skia::{PathBuilder, Stroke, StrokeDash};

use super::plan::{Kind, SlabPlan};
use super::simulate::{PROVISIONING, SIZE, columns, curve_name};
use crate::canvas::{Anchor, Canvas, INK};
use crate::error::{Error, Result};
use crate::table::Table;

/// Draws the table of a plan; answers a PNG file's octets.
pub fn plot(plan: &SlabPlan, table: &Table) -> Result<Vec<u8>> {
    let panels = panels(plan);
    let pixels = 160 + panels.len() as u32 * PANEL_PIXELS;
    let height = pixels as f32;
    let mut canvas = Canvas::new(WIDTH, pixels);
    canvas.text(
        &plan.title,
        (f32::midpoint(LEFT, RIGHT), 46.0),
        25.0,
        Anchor::Middle,
    );
    let is_log = matches!(plan.kind, Kind::Size | Kind::Provisioning);
    let xs = table
        .rows
        .iter()
        .filter_map(|row| row[0])
        .collect::<Vec<_>>();
    let x = Axis::around(&xs, is_log, (LEFT, RIGHT - LEGEND));
    for (nth, panel) in panels.iter().enumerate() {
        let top = 90.0 + nth as f32 * PANEL;
        draw(&mut canvas, table, panel, (&x, top));
    }
    let below = (f32::midpoint(LEFT, RIGHT - LEGEND), height - 20.0);
    let what = match plan.kind {
        Kind::Size => "slab, MiB",
        Kind::Provisioning => "buffer, MiB",
        Kind::Cluster => "gateways",
        Kind::Load => "offered load, Gb/s",
    };
    canvas.text(what, below, 21.0, Anchor::Middle);
    canvas
        .png()
        .map_err(|why| Error::Misuse(format!("{}: {why}", plan.name)))
}

/// One of several pictures with the same horizontal axis.
struct Panel {
    label: &'static str,
    is_log: bool,
    /// Columns, and what the legend calls them; a paper's are dashed.
    curves: Vec<(String, String, bool)>,
}

fn panels(plan: &SlabPlan) -> Vec<Panel> {
    let of = |label, tail: &str, is_log| Panel {
        label,
        is_log,
        curves: plan
            .series
            .iter()
            .map(|series| {
                let column = format!("{}_{tail}", curve_name(plan.kind, *series));
                (column, legend(plan.kind, *series), false)
            })
            .collect(),
    };
    let fixed = |label, names: &[(usize, &str, bool)], is_log| {
        let columns = columns(plan);
        let curve = |(nth, name, dashed): &(usize, &str, bool)| {
            (columns[*nth].clone(), (*name).to_owned(), *dashed)
        };
        Panel {
            label,
            is_log,
            curves: names.iter().map(curve).collect(),
        }
    };
    match plan.kind {
        Kind::Size => vec![
            of("channel used, %", SIZE[0], false),
            of("bulk, 99 %, ms", SIZE[1], true),
            of("keystrokes, 99 %, ms", SIZE[2], false),
        ],
        Kind::Provisioning => vec![
            of("open channel used, %", PROVISIONING[0], false),
            of("last byte, ms", PROVISIONING[1], true),
        ],
        Kind::Cluster => ["channel used, %", "lost, %"]
            .into_iter()
            .zip(1..)
            .map(|(label, nth)| {
                let curves = [
                    (nth, "token, all busy", false),
                    (nth + 3, "1/N each, all busy", false),
                    (nth + 6, "1/N each, in step", false),
                    (nth + 9, "token, half busy", true),
                    (nth + 12, "1/N each, half busy", true),
                ];
                fixed(label, &curves, false)
            })
            .collect(),
        Kind::Load => vec![
            fixed(
                "ms",
                &[
                    (1, "formation", false),
                    (2, "transfer", false),
                    (3, "interval", false),
                    (5, "formation + 109 ms (paper)", true),
                ],
                true,
            ),
            fixed("throughput, Gb/s", &[(4, "throughput", false)], false),
        ],
    }
}

fn legend(kind: Kind, series: u64) -> String {
    match kind {
        Kind::Provisioning => format!("opens after {} ms", series / 1_000_000),
        Kind::Size | Kind::Cluster | Kind::Load => format!("buffer {} MiB", series >> 20),
    }
}

fn draw(canvas: &mut Canvas, table: &Table, panel: &Panel, (x, top): (&Axis, f32)) {
    let points = |column: &String| table.points(column);
    let all: Vec<_> = panel.curves.iter().map(|curve| points(&curve.0)).collect();
    let values: Vec<f64> = all.iter().flatten().map(|point| point.1).collect();
    let y = Axis::around(&values, panel.is_log, (top + PANEL - 60.0, top + 10.0));
    grid(canvas, x, &y);
    let middle = f32::midpoint(y.places.0, y.places.1);
    canvas.text(panel.label, (34.0, middle), 20.0, Anchor::Upright);
    for (nth, ((_, name, dashed), points)) in panel.curves.iter().zip(&all).enumerate() {
        let color = COLORS[nth % COLORS.len()];
        let stroke = Stroke {
            width: if *dashed { 1.8 } else { 3.0 },
            dash: dashed
                .then(|| StrokeDash::new(vec![8.0, 6.0], 0.0))
                .flatten(),
            ..Stroke::default()
        };
        let places: Vec<_> = points
            .iter()
            .map(|point| (x.at(point.0), y.at(point.1)))
            .collect();
        canvas.stroke(&places, color, &stroke);
        for (x, y) in places {
            canvas.fill(PathBuilder::from_circle(x, y, 4.0), color);
        }
        let beside = (RIGHT - LEGEND + 20.0, top + 26.0 + nth as f32 * 28.0);
        canvas.stroke(&[beside, (beside.0 + 34.0, beside.1)], color, &stroke);
        canvas.text(name, (beside.0 + 44.0, beside.1 + 6.0), 17.0, Anchor::Start);
    }
}

fn grid(canvas: &mut Canvas, x: &Axis, y: &Axis) {
    let ((left, right), (bottom, top)) = (x.places, y.places);
    for tick in x.ticks() {
        let at = x.at(tick);
        canvas.line(&[(at, top), (at, bottom)], GRID, 1.0);
        canvas.text(
            &format!("{tick}"),
            (at, bottom + 24.0),
            16.0,
            Anchor::Middle,
        );
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        canvas.line(&[(left, at), (right, at)], GRID, 1.0);
        canvas.text(
            &format!("{tick}"),
            (left - 10.0, at + 6.0),
            16.0,
            Anchor::End,
        );
    }
    canvas.line(&[(left, top), (left, bottom), (right, bottom)], INK, 1.5);
}

/// Values to places, straight from zero or by their logarithms.
struct Axis {
    values: (f64, f64),
    places: (f32, f32),
    is_log: bool,
}

impl Axis {
    fn around(values: &[f64], is_log: bool, places: (f32, f32)) -> Self {
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max).max(1e-3);
        let values = if is_log {
            (least.max(1e-3) * 0.8, most * 1.25)
        } else {
            (0.0, most * 1.05)
        };
        Self {
            values,
            places,
            is_log,
        }
    }

    fn at(&self, value: f64) -> f32 {
        let (from, till) = self.values;
        let share = if self.is_log {
            (value.max(from).ln() - from.ln()) / (till.ln() - from.ln())
        } else {
            (value - from) / (till - from)
        };
        self.places.0 + share as f32 * (self.places.1 - self.places.0)
    }

    fn ticks(&self) -> Vec<f64> {
        let (from, till) = self.values;
        let within = |tick: &f64| (from..=till).contains(tick);
        let decades = (-3..8).map(|power| 10_f64.powi(power));
        let steps = decades.flat_map(|decade| [decade, 2.0 * decade, 5.0 * decade]);
        if self.is_log {
            return steps.filter(within).collect();
        }
        let mut steps = steps;
        let step = steps.find(|step| till / step <= 6.0).unwrap_or(till);
        (0..=6)
            .map(|nth| f64::from(nth) * step)
            .filter(within)
            .collect()
    }
}

const WIDTH: u32 = 1200;
const PANEL_PIXELS: u32 = 250;
const PANEL: f32 = PANEL_PIXELS as f32;
const LEFT: f32 = 110.0;
const RIGHT: f32 = 1180.0;
const LEGEND: f32 = 310.0;
/// Colours that colour-blind people tell apart (Okabe and Ito 2008).
const COLORS: [[u8; 3]; 5] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [110, 110, 110],
];
const GRID: [u8; 3] = [225, 225, 225];
