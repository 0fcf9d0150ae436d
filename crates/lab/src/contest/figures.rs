//! Figures of contests: from plans to tables and pictures. Accepted measurements are kept until a
//! new run is requested.

use std::path::Path;

use super::plan::ContestPlan;
use super::plot::plot;
use crate::error::Result;
use crate::figure::{Figure, Source, draw, keep};
use crate::file;
use crate::table::Table;

/// Redraws every plan in `dir`, if the directory exists. Repeats the measurements if asked to.
pub fn figures(dir: &Path, anew: bool) -> Result<Vec<Figure>> {
    let draw = |plan: ContestPlan| {
        let table = if anew { plan.measure()? } else { plan.blank() };
        keep(dir, &plan.name, table, |table| plot(&plan, table))
    };
    plans(dir)?.into_iter().map(draw).collect()
}

/// Draws every plan in `dir` from its accepted table, if `dir` exists.
pub fn redrawn(dir: &Path) -> Result<Vec<Figure>> {
    let redraw = |plan: ContestPlan| {
        let drawing = |table: &Table| plot(&plan, table);
        draw(
            (dir, &plan.name),
            Source::Accepted,
            || Ok(plan.blank()),
            drawing,
        )
    };
    plans(dir)?.into_iter().map(redraw).collect()
}

/// Reads the plans in `dir`, sorted by name.
pub fn plans(dir: &Path) -> Result<Vec<ContestPlan>> {
    let files = file::plans_if_any(dir)?;
    file::read_all(files, ContestPlan::parse)
}
