//! The picture of a figure of latencies: above how old messages are, below how many do not come.

use tiny_skia::{PathBuilder, Stroke, StrokeDash};

use super::plan::LatencyPlan;
use super::simulate::COLUMNS;
use crate::canvas::{Anchor, Canvas, INK};
use crate::error::{Error, Result};
use crate::table::Table;

/// Draws the table of a plan; answers a PNG file's octets.
pub fn plot(plan: &LatencyPlan, table: &Table) -> Result<Vec<u8>> {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    let x = Scale {
        values: ends(plan.losses_ppb.iter().map(|ppb| *ppb as f64 / 1e7)),
        places: (LEFT + 30.0, RIGHT - 330.0),
    };
    let [median, slow, lost] = COLUMNS.map(|tail| {
        let points = |name: &str| table.points(&format!("{name}{tail}"));
        plan.series
            .iter()
            .map(|series| points(&series.name))
            .collect::<Vec<_>>()
    });
    let all = median.iter().chain(&slow).flatten().map(|point| point.1);
    let above = Scale {
        values: ends(all),
        places: (430.0, 90.0),
    };
    let below = Scale {
        values: (LOST_MIN, 1e5),
        places: (770.0, 500.0),
    };
    canvas.text(
        &plan.title,
        (f32::midpoint(LEFT, RIGHT), 48.0),
        26.0,
        Anchor::Middle,
    );
    axes(&mut canvas, &x, &above, "latency, ms");
    axes(&mut canvas, &x, &below, "lost, of a million");
    canvas.text(
        "datagrams lost, %",
        (f32::midpoint(x.places.0, x.places.1), 830.0),
        22.0,
        Anchor::Middle,
    );
    for (nth, series) in plan.series.iter().enumerate() {
        let color = COLORS[nth % COLORS.len()];
        curve(&mut canvas, [&x, &above], &median[nth], (color, true));
        curve(&mut canvas, [&x, &above], &slow[nth], (color, false));
        curve(&mut canvas, [&x, &below], &lost[nth], (color, false));
        let y = 110.0 + nth as f32 * 32.0;
        canvas.line(&[(RIGHT - 300.0, y), (RIGHT - 260.0, y)], color, 3.0);
        canvas.text(&series.label, (RIGHT - 250.0, y + 7.0), 19.0, Anchor::Start);
    }
    let note = 140.0 + plan.series.len() as f32 * 32.0;
    canvas.text(
        "line: 99 % within; dashes: median",
        (RIGHT - 300.0, note),
        17.0,
        Anchor::Start,
    );
    canvas
        .png()
        .map_err(|why| Error::Misuse(format!("{}: {why}", plan.name)))
}

/// Values to places, by their logarithms.
struct Scale {
    values: (f64, f64),
    places: (f32, f32),
}

impl Scale {
    fn at(&self, value: f64) -> f32 {
        let (from, till) = self.values;
        let share = (value.max(from).ln() - from.ln()) / (till.ln() - from.ln());
        self.places.0 + share as f32 * (self.places.1 - self.places.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let decades = (-3..7).map(|power| 10_f64.powi(power));
        let (from, till) = self.values;
        decades
            .flat_map(|decade| [decade, 2.0 * decade, 5.0 * decade])
            .filter(move |tick| (from..=till).contains(tick))
    }
}

/// The least and the most, and a little room around them.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    (least * 0.8, most * 1.25)
}

fn axes(canvas: &mut Canvas, x: &Scale, y: &Scale, beside: &str) {
    let ((left, right), (bottom, top)) = (x.places, y.places);
    for tick in x.ticks() {
        let at = x.at(tick);
        canvas.line(&[(at, top), (at, bottom)], GRID, 1.0);
        canvas.text(
            &format!("{tick}"),
            (at, bottom + 26.0),
            18.0,
            Anchor::Middle,
        );
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        canvas.line(&[(left, at), (right, at)], GRID, 1.0);
        canvas.text(
            &format!("{tick}"),
            (left - 10.0, at + 6.0),
            17.0,
            Anchor::End,
        );
    }
    canvas.line(&[(left, top), (left, bottom), (right, bottom)], INK, 1.5);
    canvas.text(
        beside,
        (36.0, f32::midpoint(top, bottom)),
        22.0,
        Anchor::Upright,
    );
}

fn curve(
    canvas: &mut Canvas,
    [x, y]: [&Scale; 2],
    points: &[(f64, f64)],
    (color, dashed): ([u8; 3], bool),
) {
    let points: Vec<_> = points
        .iter()
        .map(|point| (x.at(point.0), y.at(point.1)))
        .collect();
    let stroke = Stroke {
        width: if dashed { 1.8 } else { 3.0 },
        dash: dashed
            .then(|| StrokeDash::new(vec![8.0, 6.0], 0.0))
            .flatten(),
        ..Stroke::default()
    };
    canvas.stroke(&points, color, &stroke);
    for (x, y) in points {
        canvas.fill(PathBuilder::from_circle(x, y, 4.0), color);
    }
}

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 860;
const LEFT: f32 = 90.0;
const RIGHT: f32 = 1165.0;
/// Fewer are drawn as so many: no logarithm is theirs.
const LOST_MIN: f64 = 5.0;
/// Colours that colour-blind people tell apart (Okabe and Ito 2008).
const COLORS: [[u8; 3]; 5] = [
    [110, 110, 110],
    [0, 114, 178],
    [0, 158, 115],
    [213, 94, 0],
    [204, 121, 167],
];
const GRID: [u8; 3] = [225, 225, 225];
