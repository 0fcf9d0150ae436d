//! Pictures of several panels, one above the other, with a common horizontal axis.

use lighthaul_plot::curve::{self, Line};
use lighthaul_plot::panel::{self, Axis};
use lighthaul_plot::sheet;
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
    /// Horizontal lines, such as a paper's number: label and value.
    #[serde(default, rename = "level")]
    pub(crate) levels: Vec<(String, f64)>,
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
        let panels = self.panels.iter().map(|panel| panel.of(table, self));
        sheet::Sheet::new(self.title, panels.collect()).png()
    }
}

impl Panel {
    fn of(&self, table: &Table, sheet: &Sheet<'_>) -> panel::Panel {
        let axis = |label: &str, is_log: bool| Axis {
            is_log,
            ..Axis::new(label)
        };
        let curves = self.curves.iter().enumerate().map(|(nth, curve)| {
            let line = if curve.dashed {
                Line::Dashed
            } else {
                Line::Solid
            };
            curve::Curve::new(nth, &curve.label, table.points(&curve.name)).line(line)
        });
        panel::Panel {
            x: Axis {
                is_log: sheet.is_log,
                ..Axis::across(sheet.below)
            },
            y: axis(&self.label, self.is_log),
            curves: curves.collect(),
            levels: self.levels.clone(),
            ..panel::Panel::default()
        }
    }
}
