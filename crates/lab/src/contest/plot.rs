//! Picture of a contest.

use lighthaul_plot::chart::{Across, plot_measured};

use super::plan::{ContestPlan, Measurement};
use crate::error::Result;
use crate::plot::misuse;
use crate::table::{EMULATION, Table};

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &ContestPlan, table: &Table) -> Result<Vec<u8>> {
    let curves = plan.curves().into_iter().map(|curve| {
        let points = table.points(&format!("{}{EMULATION}", curve.name));
        (curve.label, points)
    });
    let curves: Vec<_> = curves.collect();
    let (below, beside, across) = match &plan.measurement {
        Measurement::Share(_) => (
            "round-trip time, ms",
            "TCP's part of its fair share, %",
            Across::Log,
        ),
        Measurement::Course(_) => ("time, s", "goodput, Mb/s", Across::Time),
        Measurement::Mice(_) => (
            "flows beside them",
            "time of a small transfer, s",
            Across::Linear,
        ),
        Measurement::Trials(_) => (
            "send rate, Mb/s",
            "goodput, % of the rate; lost, % of the packets",
            Across::Linear,
        ),
    };
    plot_measured([&plan.title, below, beside], &curves, across).map_err(misuse(&plan.name))
}
