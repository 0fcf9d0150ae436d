//! Picture of delays over load: a panel for each class, a curve for each series, and error bars.

use lighthaul_plot::axis::{COLORS, GRID, Scale};
use lighthaul_plot::canvas::{Anchor, Canvas, INK};

use super::arrivals::CLASSES;
use super::plan::BookingPlan;
use lighthaul_lab::error::Result;
use lighthaul_lab::plot::misuse;
use lighthaul_lab::table::{SIMULATION, Table};

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &BookingPlan, table: &Table) -> Result<Vec<u8>> {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.text(
        &plan.title,
        (WIDTH as f32 / 2.0, 44.0),
        26.0,
        Anchor::Middle,
    );
    let first = plan.loads.first().copied().unwrap_or(0.0);
    let last = plan.loads.last().copied().unwrap_or(1.0);
    for (nth, class) in CLASSES.iter().enumerate() {
        let left = LEFT + nth as f32 * (FIELD + GAP);
        let points =
            |name: &str, tail: &str| table.points(&format!("{name}_r{class}{tail}{SIMULATION}"));
        let delays: Vec<_> = plan
            .series
            .iter()
            .map(|series| points(&series.name, ""))
            .collect();
        let all = || delays.iter().flatten().map(|point| point.1);
        let most = all().fold(0.0, f64::max) * 1.1;
        let least = all().fold(most, f64::min);
        let room = (last - first).max(0.1) * 0.04;
        let field = Field {
            x: Scale::linear(first - room..=last + room, left..=left + FIELD),
            y: Scale::linear(0.0..=most.min(least * MOST), BOTTOM..=TOP),
        };
        field.axes(&mut canvas, left, *class);
        for (nth, series) in plan.series.iter().enumerate() {
            let halves = points(&series.name, "_half");
            field.curve(
                &mut canvas,
                &delays[nth],
                &halves,
                COLORS[nth % COLORS.len()],
            );
        }
    }
    for (nth, series) in plan.series.iter().enumerate() {
        let (x, y) = (
            LEFT + (nth % 3) as f32 * (FIELD + GAP),
            BOTTOM + 84.0 + (nth / 3) as f32 * 30.0,
        );
        canvas.line(&[(x, y), (x + 40.0, y)], COLORS[nth % COLORS.len()], 3.0);
        canvas.text(&series.label, (x + 52.0, y + 7.0), 19.0, Anchor::Start);
    }
    canvas.png().map_err(misuse(&plan.name))
}

struct Field {
    x: Scale,
    y: Scale,
}

impl Field {
    fn axes(&self, canvas: &mut Canvas, left: f32, class: u64) {
        for tick in self.x.ticks(TICKS) {
            let x = self.x.at(tick);
            canvas.line(&[(x, TOP), (x, BOTTOM)], GRID, 1.0);
            canvas.text(
                &format!("{}", (tick * 100.0).round() / 100.0),
                (x, BOTTOM + 24.0),
                16.0,
                Anchor::Middle,
            );
        }
        for tick in self.y.ticks(TICKS) {
            let y = self.y.at(tick);
            canvas.line(&[(left, y), (left + FIELD, y)], GRID, 1.0);
            canvas.text(
                &format!("{}", tick / 1000.0),
                (left - 8.0, y + 6.0),
                16.0,
                Anchor::End,
            );
        }
        canvas.line(
            &[(left, TOP), (left, BOTTOM), (left + FIELD, BOTTOM)],
            INK,
            1.5,
        );
        let middle = left + FIELD / 2.0;
        let title = format!("most: {class} of 100 channels");
        canvas.text(&title, (middle, TOP - 12.0), 20.0, Anchor::Middle);
        canvas.text("load", (middle, BOTTOM + 50.0), 19.0, Anchor::Middle);
        canvas.text(
            "normalized delay, s",
            (left - 56.0, f32::midpoint(TOP, BOTTOM)),
            19.0,
            Anchor::Upright,
        );
    }

    fn curve(
        &self,
        canvas: &mut Canvas,
        delays: &[(f64, f64)],
        halves: &[(f64, f64)],
        color: [u8; 3],
    ) {
        let top = *self.y.values.end();
        let drawn = delays.iter().take_while(|point| point.1 <= top);
        let points: Vec<_> = drawn
            .map(|(load, delay)| (self.x.at(*load), self.y.at(*delay)))
            .collect();
        canvas.line(&points, color, 2.4);
        for ((load, delay), (_, half)) in delays.iter().zip(halves).take(points.len()) {
            let (x, bottom) = (self.x.at(*load), (delay - half).max(*self.y.values.start()));
            canvas.line(
                &[
                    (x, self.y.at(bottom)),
                    (x, self.y.at((delay + half).min(top))),
                ],
                color,
                1.6,
            );
            canvas.dot((x, self.y.at(*delay)), 4.0, color);
        }
    }
}

const WIDTH: u32 = 1500;
const HEIGHT: u32 = 800;
const LEFT: f32 = 100.0;
const FIELD: f32 = 380.0;
const GAP: f32 = 100.0;
const TOP: f32 = 100.0;
const BOTTOM: f32 = 600.0;
/// Limit of ticks on an axis.
const TICKS: u32 = 11;
/// Limit of the vertical axis, as a multiple of the smallest delay. Larger delays, as of an
/// unstable discipline, are only in the table.
const MOST: f64 = 4.0;
