//! Picture of a contest.

use lighthaul_plot::curve::{Curve, Mark};
use lighthaul_plot::panel::{Axis, Panel};
use lighthaul_plot::sheet::Sheet;

use super::plan::{ContestPlan, Measurement};
use crate::error::Result;
use crate::paper::Panels;
use crate::plot::misuse;
use crate::table::{EMULATION, Table};

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &ContestPlan, table: &Table) -> Result<Vec<u8>> {
    let mut panels = Panels::default();
    let numbers = table.rows.iter().flat_map(|row| row.iter().skip(1));
    let top = numbers.flatten().copied().fold(100.0, f64::max) * 1.05;
    for curve in plan.curves() {
        let points = table.points(&format!("{}{EMULATION}", curve.name));
        let (title, label) = place(&plan.measurement, &curve.label);
        let panel = panels.panel(title, || empty(&plan.measurement, title, top));
        let nth = panels.panels[panel].curves.len();
        let mark = match plan.measurement {
            Measurement::Course(_) => Mark::None,
            Measurement::Share(_) | Measurement::Mice(_) | Measurement::Trials(_) => Mark::Dot,
        };
        let drawn = Curve::new(nth, label, points).mark(mark);
        panels.add(panel, &curve.name, drawn);
    }
    panels
        .add_papers(&plan.papers)
        .map_err(misuse(&plan.name))?;
    let sheet = Sheet::new(&plan.title, panels.panels);
    sheet.png().map_err(misuse(&plan.name))
}

/// Splits the label of a curve into the title of its panel and a shorter label.
fn place<'a>(measurement: &Measurement, label: &'a str) -> (&'a str, &'a str) {
    let parts = match measurement {
        Measurement::Share(_) => label.split_once(", "),
        Measurement::Course(_) => None,
        Measurement::Mice(_) | Measurement::Trials(_) => {
            label.rsplit_once(": ").map(|(label, title)| (title, label))
        }
    };
    parts.unwrap_or(("", label))
}

/// Creates a panel of a measurement. Shares end at `top` in all panels.
fn empty(measurement: &Measurement, title: &str, top: f64) -> Panel {
    let (x, y) = match measurement {
        Measurement::Share(_) => (
            Axis::log("round-trip time, ms"),
            Axis::new("TCP's part of its share, %").till(top),
        ),
        Measurement::Course(_) => (Axis::new("time, s"), Axis::new("goodput, Mb/s")),
        Measurement::Mice(_) => (
            Axis::new("flows beside them"),
            Axis::new("time of a small transfer, s"),
        ),
        Measurement::Trials(_) if title == "lost" => (
            Axis::across("send rate, Mb/s"),
            Axis::new("% of the packets"),
        ),
        Measurement::Trials(_) => (Axis::across("send rate, Mb/s"), Axis::new("% of the rate")),
    };
    let levels = match measurement {
        Measurement::Share(_) => vec![("fair share".to_owned(), 100.0)],
        Measurement::Course(_) | Measurement::Mice(_) | Measurement::Trials(_) => Vec::new(),
    };
    Panel {
        x,
        y,
        levels,
        ..Panel::default()
    }
}
