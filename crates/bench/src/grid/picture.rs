//! Heat map of the grid: a panel for each condition, with the worst points named.

use lighthaul_plot::heat_map::{Cell, HeatMap, Panel, scale};

use super::plan::Axes;
use super::point::{Condition, Point};
use super::table::Table;
use super::verdict::Verdict;

/// Points that are named below a panel.
const NAMED: usize = 5;
/// Part of the best at which the scale of colors begins.
const WORST: f64 = 0.5;

/// Draws a table. Returns a PNG image.
pub(crate) fn draw(title: &str, axes: &Axes, table: &Table) -> Result<Vec<u8>, String> {
    let panels = axes.conditions.iter();
    HeatMap {
        title: title.to_owned(),
        below: "Goodput of auto in percent of the best fixed choice allowed at the point. Frame: \
                unfair to the neighbor."
            .to_owned(),
        panels: panels.map(|of| panel(*of, axes, table)).collect(),
        columns: 2,
    }
    .png()
}

fn panel(condition: Condition, axes: &Axes, table: &Table) -> Panel {
    let rtts = axes.rtts.iter();
    let rtts: Vec<String> = rtts.map(|rtt| format!("{} ms", rtt.as_millis())).collect();
    let queues = axes.queues_milli.iter();
    let queues: Vec<String> = queues
        .map(|queue| (f64::from(*queue) / 1e3).to_string())
        .collect();
    let rates = axes.rates.iter();
    let rates = rates.map(|rate| (format!("{} Gb/s", rate.as_mbps_f64() / 1e3), rtts.clone()));
    let losses = axes.losses_ppb.iter();
    let losses = losses.map(|loss| (format!("{} %", *loss as f64 / 1e7), queues.clone()));
    let points = axes.points_of(condition);
    let verdicts = points
        .iter()
        .map(|point| table.row(point).and_then(Verdict::of));
    let verdicts: Vec<Option<Verdict>> = verdicts.collect();
    Panel {
        title: format!("{}: {}", condition.name(), condition.title()),
        rows: rates.collect(),
        columns: losses.collect(),
        cells: verdicts.iter().map(|of| of.as_ref().map(cell)).collect(),
        notes: notes(verdicts.into_iter().flatten().collect()),
    }
}

fn cell(verdict: &Verdict) -> Cell {
    let ratio = verdict.ratio();
    Cell {
        text: format!("{:.0}", ratio * 100.0),
        color: scale((ratio - WORST) / (1.0 - WORST)),
        is_marked: verdict.is_unfair(),
    }
}

/// Names the worst points.
fn notes(mut verdicts: Vec<Verdict>) -> Vec<String> {
    let reached = verdicts.iter().filter(|of| of.is_reached()).count();
    let all = verdicts.len();
    verdicts.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
    let worst = verdicts.iter().filter(|of| !of.is_reached()).take(NAMED);
    let worst = worst.map(|of| {
        let percent = of.ratio() * 100.0;
        format!(
            "{percent:.0} % of {}: {}",
            of.best.0.name(),
            place(&of.point)
        )
    });
    let first =
        format!("columns: loss, queue in BDP; {reached} of {all} points reach 95 %; the worst:");
    std::iter::once(first).chain(worst).collect()
}

/// Returns a label with the rate, RTT, loss and queue length of a point.
pub(crate) fn place(point: &Point) -> String {
    format!(
        "{} Gb/s, {} ms, {} % loss, queue of {} BDP",
        point.rate.as_mbps_f64() / 1e3,
        point.rtt.as_millis(),
        point.loss_percent(),
        point.queue()
    )
}
