//! The figures of contests: plans to tables and pictures. What is measured is kept until it is measured anew.

use std::path::Path;

use super::plan::ContestPlan;
use super::plot::plot;
use crate::error::Result;
use crate::figures::{Figure, keep};
use crate::file;

/// Draws every plan in `dir` again, if there is such a folder; `anew` says that it is measured, too.
pub fn figures(dir: &Path, anew: bool) -> Result<Vec<Figure>> {
    let draw = |plan: ContestPlan| {
        let table = if anew { plan.measure()? } else { plan.blank() };
        keep(dir, &plan.name, table, |table| plot(&plan, table))
    };
    plans(dir)?.into_iter().map(draw).collect()
}

/// The plans in `dir`, by name.
pub fn plans(dir: &Path) -> Result<Vec<ContestPlan>> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let files = file::plans(dir)?;
    files.iter().map(|file| ContestPlan::read(file)).collect()
}
