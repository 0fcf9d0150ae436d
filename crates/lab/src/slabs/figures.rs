//! The figures of slabs: plans to tables and pictures, beside what was accepted.

use std::path::{Path, PathBuf};

use super::measured::MeasuredPlan;
use super::plan::SlabPlan;
use super::plot::plot;
use super::simulate::simulate;
use crate::error::Result;
use crate::figures::{Figure, accepted, keep};
use crate::file;

/// Draws every plan in `dir` again, if there is such a folder; what was measured keeps its numbers.
pub fn figures(dir: &Path) -> Result<Vec<Figure>> {
    let draw = |plan: &SlabPlan| {
        let table = simulate(plan);
        keep(dir, &plan.name, table, |table| plot(plan, table))
    };
    let mut figures: Vec<_> = plans(dir)?.iter().map(draw).collect::<Result<_>>()?;
    for plan in measured_plans(dir)? {
        if let Some(table) = accepted(dir, &plan.name)? {
            figures.push(plan.keep(dir, table)?);
        }
    }
    Ok(figures)
}

/// The plans in `dir`, by name, but for those that [`measured_plans`] answers.
pub fn plans(dir: &Path) -> Result<Vec<SlabPlan>> {
    let files = files(dir)?.into_iter().filter(|file| !is_measured(file));
    files.map(|file| SlabPlan::read(&file)).collect()
}

/// The plans of what programs measured: those in files called `gateway-` and something.
pub fn measured_plans(dir: &Path) -> Result<Vec<MeasuredPlan>> {
    let files = files(dir)?.into_iter().filter(|file| is_measured(file));
    files.map(|file| MeasuredPlan::read(&file)).collect()
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    file::plans(dir)
}

fn is_measured(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with("gateway-")
}
