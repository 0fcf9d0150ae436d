//! Pictures of paths across domains.

use lighthaul_plot::curve::{Curve, Line};
use lighthaul_plot::panel::{Axis, Panel};
use lighthaul_plot::sheet::Sheet;
use lighthaul_stargate::Signaling;

use super::plan::{Blocking, DomainsFigure, DomainsPlan, SetUpSeries};
use lighthaul_lab::error::Result;
use lighthaul_lab::plot::misuse;
use lighthaul_lab::table::{SIMULATION, Table};

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &DomainsPlan, table: &Table) -> Result<Vec<u8>> {
    let sheet = match &plan.kind {
        DomainsFigure::SetUp(_, series) => Sheet::new(&plan.title, vec![set_ups(series, table)]),
        DomainsFigure::Blocking(blocking) => {
            let panels = PANELS.map(|panel| blocked(blocking, panel, table));
            Sheet {
                title: plan.title.clone(),
                panels: panels.into(),
                columns: PANELS.len(),
            }
        }
    };
    sheet.png().map_err(misuse(&plan.name))
}

fn set_ups(series: &[SetUpSeries], table: &Table) -> Panel {
    let curve = |(nth, one): (usize, &SetUpSeries)| {
        let points = table.points(&format!("{}{SIMULATION}", one.name));
        let line = match one.signaling {
            Signaling::Tree => Line::Dashed,
            Signaling::Chain => Line::Solid,
        };
        Curve::new(nth, &one.label, points).line(line)
    };
    Panel {
        x: Axis::across("domains in the path"),
        y: Axis::new("set-up time, ms"),
        curves: series.iter().enumerate().map(curve).collect(),
        ..Panel::default()
    }
}

/// Returns the panel of one column of each series, with its intervals.
fn blocked(plan: &Blocking, (tail, beside): (&str, &str), table: &Table) -> Panel {
    let curves = plan.series.iter().enumerate().map(|(nth, one)| {
        let points = |half: &str| table.points(&format!("{}{tail}{half}{SIMULATION}", one.name));
        let (values, halves) = (points(""), points("_half"));
        let ends = values.iter().zip(halves);
        let ends =
            ends.map(|((load, value), (_, half))| (*load, [(value - half).max(0.0), value + half]));
        Curve {
            intervals: ends.collect(),
            ..Curve::new(nth, &one.label, values)
        }
    });
    Panel {
        x: Axis::across("offered load of the fullest link"),
        y: Axis::new(beside),
        curves: curves.collect(),
        ..Panel::default()
    }
}

/// Panels: suffix of the columns, and the vertical axis.
const PANELS: [(&str, &str); 3] = [
    ("_blocked", "refused requests, %"),
    ("_used", "utilization of the fullest link, %"),
    ("_time", "from request to end of path, s"),
];
