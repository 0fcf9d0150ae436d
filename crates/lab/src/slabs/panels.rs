//! Pictures of several panels, one above the other, with the same horizontal axis.

use serde::Deserialize;

use crate::axis::{Pen, Scale, grid};
use crate::canvas::{Anchor, Canvas};
use crate::table::Table;

/// A picture of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sheet<'a> {
    pub(super) title: &'a str,
    /// What stands below it.
    pub(super) below: &'a str,
    /// It goes across by logarithms.
    pub(super) is_log: bool,
    /// From above.
    pub(super) panels: &'a [Panel],
}

/// One of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Panel {
    /// What stands beside it.
    pub(super) label: String,
    /// It goes up by logarithms.
    #[serde(default)]
    pub(super) is_log: bool,
    #[serde(rename = "curve")]
    pub(super) curves: Vec<Curve>,
}

/// A column of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Curve {
    /// What it is called there.
    pub(super) name: String,
    /// What the legend calls it.
    pub(super) label: String,
    /// It is a paper's, or what the others are compared with.
    #[serde(default)]
    pub(super) dashed: bool,
}

impl Sheet<'_> {
    /// Draws a table; answers a PNG file's octets.
    pub(super) fn plot(&self, table: &Table) -> Result<Vec<u8>, String> {
        let pixels = 160 + self.panels.len() as u32 * PANEL_PIXELS;
        let mut canvas = Canvas::new(WIDTH, pixels);
        let middle = f32::midpoint(LEFT, RIGHT);
        canvas.text(self.title, (middle, 46.0), 25.0, Anchor::Middle);
        let xs = table.rows.iter().filter_map(|row| row[0]);
        let x = Scale::around(xs, self.is_log, LEFT..=RIGHT - LEGEND);
        for (nth, panel) in self.panels.iter().enumerate() {
            panel.draw(&mut canvas, table, (&x, 90.0 + nth as f32 * PANEL));
        }
        let below = (f32::midpoint(LEFT, RIGHT - LEGEND), pixels as f32 - 20.0);
        canvas.text(self.below, below, 21.0, Anchor::Middle);
        canvas.png()
    }
}

impl Panel {
    fn draw(&self, canvas: &mut Canvas, table: &Table, (x, top): (&Scale, f32)) {
        let all: Vec<_> = self
            .curves
            .iter()
            .map(|curve| table.points(&curve.name))
            .collect();
        let values = all.iter().flatten().map(|point| point.1);
        let y = Scale::around(values, self.is_log, top + PANEL - 60.0..=top + 10.0);
        grid(canvas, [x, &y]);
        let middle = f32::midpoint(*y.places.start(), *y.places.end());
        canvas.text(&self.label, (34.0, middle), 20.0, Anchor::Upright);
        for (nth, (curve, points)) in self.curves.iter().zip(&all).enumerate() {
            let pen = Pen::new(nth, curve.dashed);
            pen.curve(canvas, [x, &y], points);
            let beside = (RIGHT - LEGEND + 20.0, top + 26.0 + nth as f32 * 28.0);
            pen.entry(canvas, &curve.label, beside);
        }
    }
}

const WIDTH: u32 = 1200;
const PANEL_PIXELS: u32 = 250;
const PANEL: f32 = PANEL_PIXELS as f32;
const LEFT: f32 = 110.0;
const RIGHT: f32 = 1180.0;
const LEGEND: f32 = 310.0;
