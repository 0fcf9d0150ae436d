//! Picture of a figure of slabs.

use super::plan::{Experiment, SlabPlan};
use super::simulate::{PROVISIONING, SIZE, columns, curve_name};
use crate::error::Result;
use crate::panels::{Curve, Panel, Sheet};
use crate::plot::misuse;
use crate::table::Table;

/// Draws the table of a plan. Returns a PNG image.
pub fn plot(plan: &SlabPlan, table: &Table) -> Result<Vec<u8>> {
    let below = match plan.kind {
        Experiment::Size => "slab, MiB",
        Experiment::Provisioning => "buffer, MiB",
        Experiment::Cluster => "gateways",
        Experiment::Load => "offered load, Gb/s",
    };
    let is_log = matches!(plan.kind, Experiment::Size | Experiment::Provisioning);
    Sheet {
        title: &plan.title,
        below,
        is_log,
        panels: &panels(plan),
    }
    .plot(table)
    .map_err(misuse(&plan.name))
}

fn panels(plan: &SlabPlan) -> Vec<Panel> {
    let of = |label: &str, tail: &str, is_log| Panel {
        label: label.to_owned(),
        is_log,
        curves: plan
            .series
            .iter()
            .map(|series| Curve {
                name: format!("{}_{tail}", curve_name(plan.kind, *series)),
                label: legend(plan.kind, *series),
                dashed: false,
            })
            .collect(),
        levels: Vec::new(),
    };
    let fixed = |label: &str, names: &[(usize, &str, bool)], is_log| {
        let columns = columns(plan);
        let curve = |(nth, label, dashed): &(usize, &str, bool)| Curve {
            name: columns[*nth].clone(),
            label: (*label).to_owned(),
            dashed: *dashed,
        };
        Panel {
            label: label.to_owned(),
            is_log,
            curves: names.iter().map(curve).collect(),
            levels: Vec::new(),
        }
    };
    match plan.kind {
        Experiment::Size => vec![
            of("channel used, %", SIZE[0], false),
            of("bulk, 99 %, ms", SIZE[1], true),
            of("keystrokes, 99 %, ms", SIZE[2], false),
        ],
        Experiment::Provisioning => vec![
            of("open channel used, %", PROVISIONING[0], false),
            of("last byte, ms", PROVISIONING[1], true),
        ],
        Experiment::Cluster => ["channel used, %", "lost, %"]
            .into_iter()
            .zip(1..)
            .map(|(label, nth)| {
                let curves = [
                    (nth, "token, all busy", false),
                    (nth + 3, "1/N each, all busy", false),
                    (nth + 6, "1/N each, in step", false),
                    (nth + 9, "token, half busy", true),
                    (nth + 12, "1/N each, half busy", true),
                ];
                fixed(label, &curves, false)
            })
            .collect(),
        Experiment::Load => {
            let mut times = fixed(
                "ms",
                &[
                    (1, "formation", false),
                    (3, "interval", false),
                    (5, "formation + 109 ms", true),
                    (2, "transfer", false),
                ],
                true,
            );
            times.levels = vec![("paper: transfer, about 109 ms".to_owned(), 109.0)];
            let throughput = [(4, "throughput", false)];
            vec![times, fixed("throughput, Gb/s", &throughput, false)]
        }
    }
}

fn legend(kind: Experiment, series: u64) -> String {
    match kind {
        Experiment::Provisioning => format!("opens after {} ms", series / 1_000_000),
        Experiment::Size | Experiment::Cluster | Experiment::Load => {
            format!("buffer {} MiB", series >> 20)
        }
    }
}
