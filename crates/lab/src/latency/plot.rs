//! Picture of latencies: above the age of messages at arrival, below their loss.

use lighthaul_plot::axis::{Pen, Scale, grid};
use lighthaul_plot::canvas::{Anchor, Canvas};

use super::plan::LatencyPlan;
use super::simulate::COLUMNS;
use crate::error::Result;
use crate::plot::misuse;
use crate::table::Table;

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &LatencyPlan, table: &Table) -> Result<Vec<u8>> {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    let losses = plan.losses_ppb.iter().map(|ppb| *ppb as f64 / 1e7);
    let x = Scale::around(losses, true, LEFT + 30.0..=RIGHT - 330.0);
    let [median, slow, lost] = COLUMNS.map(|tail| {
        let points = |name: &str| table.points(&format!("{name}{tail}"));
        plan.series
            .iter()
            .map(|series| points(&series.name))
            .collect::<Vec<_>>()
    });
    let all = median.iter().chain(&slow).flatten().map(|point| point.1);
    let above = Scale::around(all, true, 430.0..=90.0);
    let below = Scale::log(LOST_MIN..=1e5, 770.0..=500.0);
    canvas.text(
        &plan.title,
        (f32::midpoint(LEFT, RIGHT), 48.0),
        26.0,
        Anchor::Middle,
    );
    for (y, beside) in [(&above, "latency, ms"), (&below, "lost, of a million")] {
        grid(&mut canvas, [&x, y]);
        let middle = f32::midpoint(*y.places.start(), *y.places.end());
        canvas.text(beside, (36.0, middle), 22.0, Anchor::Upright);
    }
    canvas.text(
        "datagrams lost, %",
        (f32::midpoint(*x.places.start(), *x.places.end()), 830.0),
        22.0,
        Anchor::Middle,
    );
    for (nth, series) in plan.series.iter().enumerate() {
        let [line, dashes] = [false, true].map(|dashed| Pen::new(nth, dashed));
        dashes.curve(&mut canvas, [&x, &above], &median[nth]);
        line.curve(&mut canvas, [&x, &above], &slow[nth]);
        line.curve(&mut canvas, [&x, &below], &lost[nth]);
        let beside = (RIGHT - 300.0, 110.0 + nth as f32 * 32.0);
        line.entry(&mut canvas, &series.label, beside);
    }
    let note = 140.0 + plan.series.len() as f32 * 32.0;
    canvas.text(
        "line: 99 % within; dashes: median",
        (RIGHT - 300.0, note),
        17.0,
        Anchor::Start,
    );
    canvas.png().map_err(misuse(&plan.name))
}

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 860;
const LEFT: f32 = 90.0;
const RIGHT: f32 = 1165.0;
/// Smallest loss that is drawn, in parts per million; zero has no logarithm.
const LOST_MIN: f64 = 5.0;
