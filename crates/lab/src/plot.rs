//! Pictures of figures of one path, and of flows that share a link.

use lighthaul_plot::axis::COLORS;
use lighthaul_plot::canvas::INK;
use lighthaul_plot::curve::{Curve, Line, Mark};
use lighthaul_plot::panel::{Axis, Panel, Start};
use lighthaul_plot::sheet::Sheet;

use crate::error::{Error, Result};
use crate::paper::Panels;
use crate::plan::{Plan, Series, Variable};
use crate::shared_link_plan::{self, SharedLinkPlan};
use crate::table::{EMULATION, EXPECTED, MODEL, SIMULATION, Table};

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &Plan, table: &Table) -> Result<Vec<u8>> {
    let mut panels = Panels::default();
    for series in &plan.series {
        let panel = panels.panel(&series.panel, || empty(plan));
        let known = panels.panels[panel].curves.iter();
        let nth = known.filter(|curve| curve.color != INK).count();
        for curve in curves(plan, series, table, COLORS[nth % COLORS.len()]) {
            panels.add(panel, &series.name, curve);
        }
    }
    panels
        .add_papers(&plan.papers)
        .map_err(misuse(&plan.name))?;
    let sheet = Sheet::new(&plan.title, panels.panels);
    sheet.png().map_err(misuse(&plan.name))
}

/// Creates a panel of a plan.
fn empty(plan: &Plan) -> Panel {
    let y = if plan.draws_time {
        Axis::log(plan.beside())
    } else {
        Axis::new(plan.beside())
    };
    Panel {
        x: match plan.vary {
            Variable::Rate => Axis::across(plan.axis()),
            Variable::Object => Axis::log(plan.axis()),
        },
        y,
        ..Panel::default()
    }
}

/// Returns the curves of a series: one for each origin of the numbers.
fn curves(plan: &Plan, series: &Series, table: &Table, color: [u8; 3]) -> Vec<Curve> {
    let drawn = |origin: &Origin| {
        let points = table.points(&format!("{}{}", series.name, origin.column));
        let points = points.into_iter();
        // the table has goodput in Mb/s, and the size of the object is known
        let point = |(x, y): (f64, f64)| (x, plan.time(series, y).unwrap_or(y));
        points.map(point).collect::<Vec<_>>()
    };
    let used = ORIGINS.iter().filter(|origin| !drawn(origin).is_empty());
    let used: Vec<&Origin> = used.collect();
    let curve = |origin: &&Origin| Curve {
        label: if used.len() > 1 {
            format!("{}: {}", series.label, origin.label)
        } else {
            series.label.clone()
        },
        color: if origin.is_predicted { INK } else { color },
        line: origin.line,
        mark: origin.mark,
        points: drawn(origin),
        intervals: Vec::new(),
    };
    used.iter().map(curve).collect()
}

/// Draws the table of flows that share a link. Returns a PNG image.
pub fn plot_shared_link(plan: &SharedLinkPlan, table: &Table) -> Result<Vec<u8>> {
    let mut panels = Panels::default();
    let numbers = table.rows.iter().flat_map(|row| row.iter().skip(1));
    let least = numbers.flatten().copied().fold(100.0, f64::min);
    for flow in &plan.flows {
        let points = table.points(&format!("{}{SIMULATION}", flow.name));
        let (title, mark, axes) = match &plan.vary {
            shared_link_plan::Variable::Link(_) => {
                let mut y = Axis::new("utilization, %").till(101.0);
                y.start = Start::At((least / 5.0).floor() * 5.0);
                (flow.mode_name(), Mark::Dot, [Axis::log("link, Mb/s"), y])
            }
            shared_link_plan::Variable::Time(_) => {
                let axes = [Axis::new("time, s"), Axis::new("goodput, Mb/s")];
                ("", Mark::None, axes)
            }
        };
        let [x, y] = axes;
        let create = || Panel {
            x,
            y,
            ..Panel::default()
        };
        let panel = panels.panel(title, create);
        let nth = panels.panels[panel].curves.len();
        let curve = Curve::new(nth, &flow.label, points).mark(mark);
        panels.add(panel, &flow.name, curve);
    }
    panels
        .add_papers(&plan.papers)
        .map_err(misuse(&plan.name))?;
    let sheet = Sheet::new(&plan.title, panels.panels);
    sheet.png().map_err(misuse(&plan.name))
}

/// Returns the function for `map_err` that adds the name of the figure.
pub fn misuse(name: &str) -> impl FnOnce(String) -> Error {
    move |why| Error::Misuse(format!("{name}: {why}"))
}

/// Origin of a curve, which determines its column and style.
#[derive(Clone, Copy, Debug)]
struct Origin {
    column: &'static str,
    label: &'static str,
    line: Line,
    mark: Mark,
    is_predicted: bool,
}

/// Origins in drawing order: predictions are drawn above the simulation.
const ORIGINS: [Origin; 4] = [
    Origin {
        column: SIMULATION,
        label: "simulated",
        line: Line::Solid,
        mark: Mark::Dot,
        is_predicted: false,
    },
    Origin {
        column: MODEL,
        label: "paper's equations",
        line: Line::Dashed,
        mark: Mark::None,
        is_predicted: true,
    },
    Origin {
        column: EXPECTED,
        label: "exact mean of blasts",
        line: Line::Dotted,
        mark: Mark::None,
        is_predicted: true,
    },
    Origin {
        column: EMULATION,
        label: "emulated",
        line: Line::None,
        mark: Mark::Square,
        is_predicted: false,
    },
];
