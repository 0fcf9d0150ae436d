//! Picture of delays over load: a panel for each class, a curve for each series, and error bars.

use lighthaul_plot::curve::Curve;
use lighthaul_plot::panel::{Axis, Panel};
use lighthaul_plot::sheet::Sheet;

use super::arrivals::CLASSES;
use super::plan::BookingPlan;
use lighthaul_lab::error::Result;
use lighthaul_lab::plot::misuse;
use lighthaul_lab::table::{SIMULATION, Table};

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &BookingPlan, table: &Table) -> Result<Vec<u8>> {
    let panels = CLASSES.iter().map(|class| panel(plan, *class, table));
    let sheet = Sheet {
        title: plan.title.clone(),
        panels: panels.collect(),
        columns: CLASSES.len(),
    };
    sheet.png().map_err(misuse(&plan.name))
}

/// Returns the panel of files of one class.
fn panel(plan: &BookingPlan, class: u64, table: &Table) -> Panel {
    let seconds = |name: &str, tail: &str| -> Vec<(f64, f64)> {
        let points = table.points(&format!("{name}_r{class}{tail}{SIMULATION}"));
        let points = points.into_iter();
        points.map(|(load, millis)| (load, millis / 1e3)).collect()
    };
    let curve = |(nth, series): (usize, &super::plan::Series)| {
        let points = seconds(&series.name, "");
        let halves = seconds(&series.name, "_half");
        let ends = points.iter().zip(halves);
        let ends = ends.map(|((load, delay), (_, half))| (*load, [delay - half, delay + half]));
        Curve {
            intervals: ends.collect(),
            ..Curve::new(nth, &series.label, points)
        }
    };
    let curves: Vec<Curve> = plan.series.iter().enumerate().map(curve).collect();
    let delays = curves.iter().flat_map(|curve| &curve.points);
    let delays = delays.map(|point| point.1);
    let most = delays.clone().fold(0.0, f64::max);
    let least = delays.fold(most, f64::min);
    let mut y = Axis::around("normalized delay, s");
    if most > least * MOST {
        y = y.till(least * MOST);
    }
    Panel {
        title: format!("at most {class} of 100 channels"),
        x: Axis::around("load"),
        y,
        curves,
        levels: Vec::new(),
    }
}

/// Limit of the vertical axis, as a multiple of the smallest delay. Larger delays, as of an
/// unstable discipline, are only in the table.
const MOST: f64 = 4.0;
