//! Pictures of paths across domains.

use lighthaul_plot::axis::{Pen, Scale, grid};
use lighthaul_plot::canvas::{Anchor, Canvas};

use lighthaul_stargate::Signaling;

use super::plan::{Blocking, DomainsPlan, Kind, SetUpSeries};
use lighthaul_lab::error::Result;
use lighthaul_lab::plot::misuse;
use lighthaul_lab::table::{SIMULATION, Table};

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &DomainsPlan, table: &Table) -> Result<Vec<u8>> {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    let middle = WIDTH as f32 / 2.0;
    canvas.text(&plan.title, (middle, 48.0), 26.0, Anchor::Middle);
    match &plan.kind {
        Kind::SetUp(domains, series) => set_ups(&mut canvas, domains, series, table),
        Kind::Blocking(plan) => blocking(&mut canvas, plan, table),
    }
    canvas.png().map_err(misuse(&plan.name))
}

fn set_ups(canvas: &mut Canvas, domains: &[u32], series: &[SetUpSeries], table: &Table) {
    let curves = series
        .iter()
        .map(|one| table.points(&format!("{}{SIMULATION}", one.name)));
    let curves: Vec<_> = curves.collect();
    let most = curves
        .iter()
        .flatten()
        .map(|point| point.1)
        .fold(1.0, f64::max);
    let last = domains.last().copied().map_or(1.0, f64::from);
    let x = Scale::linear(0.0..=last * 1.03, LEFT..=WIDTH as f32 - 260.0);
    let y = Scale::linear(0.0..=most * 1.05, BOTTOM..=TOP);
    axes(canvas, [&x, &y], ["domains in the path", "set-up time, ms"]);
    for (nth, one) in series.iter().enumerate() {
        let pen = Pen::new(nth, one.signaling == Signaling::Tree);
        pen.curve(canvas, [&x, &y], &curves[nth]);
        pen.entry(
            canvas,
            &one.label,
            (WIDTH as f32 - 230.0, TOP + 20.0 + nth as f32 * 34.0),
        );
    }
}

fn blocking(canvas: &mut Canvas, plan: &Blocking, table: &Table) {
    let width = (WIDTH as f32 - 30.0) / 3.0 - LEFT;
    let last = plan.loads.last().copied().unwrap_or(1.0);
    for (panel, (tail, beside)) in PANELS.into_iter().enumerate() {
        let curves = plan.series.iter().map(|one| {
            let points =
                |half: &str| table.points(&format!("{}{tail}{half}{SIMULATION}", one.name));
            (points(""), points("_half"))
        });
        let curves: Vec<_> = curves.collect();
        let all = curves.iter().flat_map(|(points, _)| points);
        let most = all.map(|point| point.1).fold(1.0, f64::max);
        let left = LEFT + panel as f32 * (width + LEFT);
        let x = Scale::linear(0.0..=last * 1.05, left..=left + width);
        let y = Scale::linear(0.0..=most * 1.1, BOTTOM..=TOP);
        axes(
            canvas,
            [&x, &y],
            ["offered load of the fullest link", beside],
        );
        for (nth, (points, halves)) in curves.iter().enumerate() {
            let pen = Pen::new(nth, false);
            pen.curve(canvas, [&x, &y], points);
            for ((load, value), (_, half)) in points.iter().zip(halves) {
                let ends = [(value - half).max(0.0), (value + half).min(most * 1.1)];
                pen.line(canvas, &ends.map(|end| (x.at(*load), y.at(end))));
            }
        }
    }
    for (nth, one) in plan.series.iter().enumerate() {
        let beside = (LEFT + nth as f32 * 400.0, HEIGHT as f32 - 40.0);
        Pen::new(nth, false).entry(canvas, &one.label, beside);
    }
}

fn axes(canvas: &mut Canvas, [x, y]: [&Scale; 2], [below, beside]: [&str; 2]) {
    grid(canvas, [x, y]);
    let middle = f32::midpoint(*x.places.start(), *x.places.end());
    canvas.text(below, (middle, BOTTOM + 58.0), 21.0, Anchor::Middle);
    let middle = f32::midpoint(*y.places.start(), *y.places.end());
    canvas.text(
        beside,
        (*x.places.start() - 66.0, middle),
        21.0,
        Anchor::Upright,
    );
}

/// Panels: suffix of the columns, and the vertical axis.
const PANELS: [(&str, &str); 3] = [
    ("_blocked", "refused requests, %"),
    ("_used", "utilization of the fullest link, %"),
    ("_time", "from request to end of path, s"),
];
const WIDTH: u32 = 1300;
const HEIGHT: u32 = 760;
const LEFT: f32 = 100.0;
const TOP: f32 = 90.0;
const BOTTOM: f32 = 600.0;
