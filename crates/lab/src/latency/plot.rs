//! Picture of latencies: two panels with the age of messages at arrival, and one with their loss.

use lighthaul_plot::curve::Curve;
use lighthaul_plot::panel::{Axis, Panel};
use lighthaul_plot::sheet::Sheet;

use super::plan::LatencyPlan;
use super::simulate::COLUMNS;
use crate::error::Result;
use crate::plot::misuse;
use crate::table::Table;

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &LatencyPlan, table: &Table) -> Result<Vec<u8>> {
    let labels = ["median latency, ms", "99 % within, ms", "lost of a million"];
    let panels = COLUMNS.into_iter().zip(labels).map(|(tail, label)| Panel {
        x: Axis::log("datagrams lost, %"),
        y: Axis::log(label),
        curves: plan
            .series
            .iter()
            .enumerate()
            .map(|(nth, series)| {
                let points = table.points(&format!("{}{tail}", series.name));
                // zero has no logarithm: nothing is lost
                let points = points.into_iter().filter(|point| point.1 > 0.0);
                Curve::new(nth, &series.label, points.collect())
            })
            .collect(),
        ..Panel::default()
    });
    let sheet = Sheet::new(&plan.title, panels.collect());
    sheet.png().map_err(misuse(&plan.name))
}
