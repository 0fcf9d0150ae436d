//! Picture of SABUL flows beside TCP, and into slow disks.

use lighthaul_plot::axis::COLORS;
use lighthaul_plot::curve::Curve;
use lighthaul_plot::panel::{Axis, Panel};
use lighthaul_plot::sheet::Sheet;

use super::plan::{BesidePlan, Variable};
use super::simulate::columns;
use crate::error::Result;
use crate::paper::Panels;
use crate::plot::misuse;
use crate::table::Table;

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &BesidePlan, table: &Table) -> Result<Vec<u8>> {
    let numbers = table.rows.iter().flat_map(|row| row.iter().skip(1));
    let top = numbers.flatten().copied().fold(100.0, f64::max) * 1.05;
    let mut panels = Panels::default();
    for series in &plan.series {
        let panel = panels.panel(&series.panel, || empty(plan, top));
        for (nth, column) in columns(series).iter().enumerate() {
            // TCP's share has the message where round-trip times vary
            if nth > 0 && plan.vary == Variable::Rtt {
                continue;
            }
            let label = match (plan.vary, nth) {
                (Variable::Queue, 0) => "each flow of TCP",
                (Variable::Queue, _) => "each flow of SABUL",
                (Variable::Rtt | Variable::Disk, _) => &series.label,
            };
            let color = COLORS[panels.panels[panel].curves.len() % COLORS.len()];
            let curve = Curve::new(0, label, table.points(column)).color(color);
            panels.add(panel, &series.name, curve);
        }
    }
    panels
        .add_papers(&plan.papers)
        .map_err(misuse(&plan.name))?;
    let columns = if panels.panels.len() > 2 { 2 } else { 1 };
    let sheet = Sheet {
        title: plan.title.clone(),
        panels: panels.panels,
        columns,
    };
    sheet.png().map_err(misuse(&plan.name))
}

/// Creates a panel whose shares end at `top`.
fn empty(plan: &BesidePlan, top: f64) -> Panel {
    let share = || Axis::new("part of the fair share, %").till(top);
    let (x, y) = match plan.vary {
        Variable::Queue => (Axis::log("queue of the link, packets"), share()),
        Variable::Rtt => (Axis::log("round-trip time, ms"), share()),
        Variable::Disk => (
            Axis::across("rate of the target's disk, Mb/s"),
            Axis::new("goodput, Mb/s"),
        ),
    };
    let levels = match plan.vary {
        Variable::Queue | Variable::Rtt => vec![("fair share".to_owned(), 100.0)],
        Variable::Disk => Vec::new(),
    };
    Panel {
        x,
        y,
        levels,
        ..Panel::default()
    }
}
