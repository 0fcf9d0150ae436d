//! Page of the grid as Markdown: the picture, a summary, and the points where `auto` falls behind.

use std::fmt::Write as _;

use super::picture::place;
use super::plan::{Axes, GridPlan};
use super::point::Condition;
use super::reason::Reason;
use super::table::{Row, Table};
use super::verdict::Verdict;

/// Environment in which the points were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Environment {
    Simulated,
    Emulated,
}

impl Environment {
    /// Returns the name of the environment's files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Emulated => "emulated",
        }
    }
}

/// Writes the part of the page about one world.
pub(crate) fn write(world: Environment, plan: &GridPlan, axes: &Axes, table: &Table) -> String {
    let name = world.name();
    let judged = table.rows.iter();
    let judged: Vec<(&Row, Verdict)> = judged
        .filter_map(|row| Some((row, Verdict::of(row)?)))
        .collect();
    let mut text = format!(
        "## The {name} grid\n\n![Heat map of the {name} grid]({name}.png)\n\n\
         All numbers are in [{name}.csv]({name}.csv).\n\n"
    );
    summarize(&mut text, axes, &judged);
    list(&mut text, plan, &judged);
    text
}

/// Writes a line for each condition.
fn summarize(text: &mut String, axes: &Axes, judged: &[(&Row, Verdict)]) {
    text.push_str(
        "| condition | points | within 5 % of the best, or better | median | worst | neighbor kept less than half | unfair |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for condition in Condition::ALL {
        let of = |verdict: &&Verdict| verdict.point.condition == condition;
        let of: Vec<&Verdict> = judged
            .iter()
            .map(|(_, verdict)| verdict)
            .filter(of)
            .collect();
        if of.is_empty() || !axes.conditions.contains(&condition) {
            continue;
        }
        let mut ratios: Vec<f64> = of.iter().map(|verdict| verdict.ratio()).collect();
        ratios.sort_by(f64::total_cmp);
        let reached = of.iter().filter(|verdict| verdict.is_reached()).count();
        let count = |is: fn(&Verdict) -> bool| {
            let all = of.iter().filter(|verdict| is(verdict)).count();
            if condition.is_shared() {
                all.to_string()
            } else {
                String::new()
            }
        };
        let (starved, unfair) = (count(Verdict::has_starved), count(Verdict::is_unfair));
        let (median, worst) = (ratios[ratios.len() / 2] * 100.0, ratios[0] * 100.0);
        let (title, points) = (condition.title(), of.len());
        // a String takes any text
        let _ = writeln!(
            text,
            "| {title} | {points} | {reached} | {median:.0} % | {worst:.0} % | {starved} | {unfair} |"
        );
    }
}

/// Writes the points below the goal, by condition and reason.
fn list(text: &mut String, plan: &GridPlan, judged: &[(&Row, Verdict)]) {
    let behind = judged.iter().filter(|(_, verdict)| !verdict.is_reached());
    let mut behind: Vec<(Condition, Reason, &Row, &Verdict)> = behind
        .map(|(row, verdict)| {
            let time = plan.time(&row.point);
            let reason = Reason::of(row, verdict, time);
            (row.point.condition, reason, *row, verdict)
        })
        .collect();
    let order = |condition: Condition| Condition::ALL.iter().position(|known| *known == condition);
    behind.sort_by(|one, other| {
        let keys = [one, other].map(|of| (order(of.0), of.1));
        let ratios = one.3.ratio().total_cmp(&other.3.ratio());
        keys[0].cmp(&keys[1]).then(ratios)
    });
    let _ = writeln!(
        text,
        "\n### Points more than 5 % behind the best\n\nThere are {} of {}.",
        behind.len(),
        judged.len()
    );
    for group in behind.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
        let (condition, reason, ..) = group[0];
        let _ = writeln!(
            text,
            "\n<details><summary>{}: {} ({})</summary>\n\n| path | of the best | why |\n|---|---|---|",
            condition.name(),
            reason.title(),
            lighthaul_base::counted(group.len() as u64, "point", "points"),
        );
        for (_, _, row, verdict) in group {
            let evidence = reason.evidence(row, verdict);
            let (place, percent) = (place(&row.point), verdict.ratio() * 100.0);
            let _ = writeln!(text, "| {place} | {percent:.0} % | {evidence} |");
        }
        text.push_str("\n</details>\n");
    }
}

/// Text before the results.
pub(crate) const HEAD: &str = include_str!("head.md");
