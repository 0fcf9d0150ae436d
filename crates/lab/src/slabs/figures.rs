//! The figures of slabs: plans to tables and pictures, beside what was accepted.

use std::path::Path;

use super::plan::SlabPlan;
use super::plot::plot;
use super::simulate::simulate;
use crate::error::Result;
use crate::figures::{Figure, keep};
use crate::file;

/// Draws every plan in `dir` again, if there is such a folder.
pub fn figures(dir: &Path) -> Result<Vec<Figure>> {
    let draw = |plan: &SlabPlan| {
        let table = simulate(plan);
        keep(dir, &plan.name, table, |table| plot(plan, table))
    };
    plans(dir)?.iter().map(draw).collect()
}

/// The plans in `dir`, by name.
pub fn plans(dir: &Path) -> Result<Vec<SlabPlan>> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let files = file::plans(dir)?.into_iter();
    files.map(|file| SlabPlan::read(&file)).collect()
}
