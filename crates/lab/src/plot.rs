//! Pictures of figures of one path, and of flows that share a link.

use lighthaul_plot::axis::COLORS;
use lighthaul_plot::canvas::INK;
use lighthaul_plot::chart::{Chart, MARK, Style};

use crate::error::{Error, Result};
use crate::plan::{Plan, Variable};
use crate::shared_link_plan::{self, SharedLinkPlan};
use crate::table::{EMULATION, EXPECTED, MODEL, SIMULATION, Table};

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &Plan, table: &Table) -> Result<Vec<u8>> {
    let mut chart = chart(plan, table);
    chart.axes([&plan.title, plan.axis(), plan.beside()]);
    for mark in &plan.marks {
        chart.mark(&mark.label, mark.mbps);
    }
    let mut used = Vec::new();
    for (nth, series) in plan.series.iter().enumerate() {
        let color = COLORS[nth % COLORS.len()];
        chart.entry(&series.label, color, Style::Marked);
        for origin in ORIGINS {
            let points = table.points(&format!("{}{}", series.name, origin.column));
            if !points.is_empty() {
                let color = if origin.is_predicted { INK } else { color };
                chart.curve(&points, color, origin.style);
                used.push(origin.column);
            }
        }
    }
    for origin in ORIGINS {
        if used.contains(&origin.column) {
            let color = if origin.is_predicted { INK } else { MARK };
            chart.entry(origin.label, color, origin.style);
        }
    }
    chart.png().map_err(misuse(&plan.name))
}

/// Draws the table of flows that share a link. Returns a PNG image.
pub fn plot_shared_link(plan: &SharedLinkPlan, table: &Table) -> Result<Vec<u8>> {
    let keys = table.rows.iter().filter_map(|row| row.first().copied()?);
    let last = keys.clone().fold(1.0, f64::max);
    let first = keys.fold(last, f64::min);
    let mut chart = match &plan.vary {
        shared_link_plan::Variable::Link(_) => {
            let mut chart = Chart::log(first * 0.8..=last * 1.25, 0.0..=105.0);
            chart.axes([&plan.title, "link, Mb/s", "utilization, %"]);
            chart
        }
        shared_link_plan::Variable::Time(link) => {
            let mut chart = Chart::linear(0.0..=last, 0.0..=link.as_mbps_f64() * 1.05);
            chart.axes([&plan.title, "time, s", "goodput, Mb/s"]);
            chart
        }
    };
    for (nth, flow) in plan.flows.iter().enumerate() {
        let (color, style) = (COLORS[nth % COLORS.len()], Style::Marked);
        chart.entry(&flow.label, color, style);
        let points = table.points(&format!("{}{SIMULATION}", flow.name));
        chart.curve(&points, color, style);
    }
    chart.png().map_err(misuse(&plan.name))
}

/// Returns the function for `map_err` that adds the name of the figure.
pub fn misuse(name: &str) -> impl FnOnce(String) -> Error {
    move |why| Error::Misuse(format!("{name}: {why}"))
}

fn chart(plan: &Plan, table: &Table) -> Chart {
    let first = plan.values.first().copied().unwrap_or(1) as f64 / 1e6;
    let last = plan.values.last().copied().unwrap_or(1) as f64 / 1e6;
    let mut top = match plan.vary {
        Variable::Rate => last * 1.1,
        Variable::Object => 700.0,
    };
    if plan.spread.is_some() {
        let numbers = table.rows.iter().flat_map(|row| row.iter().skip(1));
        top = numbers.flatten().copied().fold(0.0, f64::max) * 1.1;
    }
    match plan.vary {
        Variable::Rate => Chart::linear(0.0..=last * 1.1, 0.0..=top),
        Variable::Object => Chart::log(first * 0.8..=last * 1.25, 0.0..=top),
    }
}

/// Origin of a curve, which determines its column and style.
#[derive(Clone, Copy, Debug)]
struct Origin {
    column: &'static str,
    label: &'static str,
    style: Style,
    is_predicted: bool,
}

/// Origins in drawing order: predictions are drawn above the simulation.
const ORIGINS: [Origin; 4] = [
    Origin {
        column: SIMULATION,
        label: "simulation",
        style: Style::Marked,
        is_predicted: false,
    },
    Origin {
        column: MODEL,
        label: "model (paper's equations)",
        style: Style::Dashed,
        is_predicted: true,
    },
    Origin {
        column: EXPECTED,
        label: "model, exact mean of blasts",
        style: Style::Dotted,
        is_predicted: true,
    },
    Origin {
        column: EMULATION,
        label: "emulation",
        style: Style::Squares,
        is_predicted: false,
    },
];
