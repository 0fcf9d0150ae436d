//! Pictures of several panels, one above the other, with a common horizontal axis.

use lighthaul_plot::axis::{Pen, Scale, grid};
use lighthaul_plot::canvas::{Anchor, Canvas};
use serde::Deserialize;

use crate::table::Table;

/// Picture of several panels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sheet<'a> {
    pub(crate) title: &'a str,
    /// Label of the horizontal axis.
    pub(crate) below: &'a str,
    /// True if the horizontal axis is logarithmic.
    pub(crate) is_log: bool,
    /// Panels from top to bottom.
    pub(crate) panels: &'a [Panel],
}

/// Panel of a picture.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Panel {
    /// Label of the vertical axis.
    pub(crate) label: String,
    /// True if the vertical axis is logarithmic.
    #[serde(default)]
    pub(crate) is_log: bool,
    #[serde(rename = "curve")]
    pub(crate) curves: Vec<Curve>,
}

/// Curve of a panel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Curve {
    /// Column in the table.
    pub(crate) name: String,
    /// Label in the legend.
    pub(crate) label: String,
    /// True for a reference curve, such as a paper's.
    #[serde(default)]
    pub(crate) dashed: bool,
}

impl Sheet<'_> {
    /// Draws a table. Returns a PNG image.
    pub(crate) fn plot(&self, table: &Table) -> Result<Vec<u8>, String> {
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
