//! Figures of slabs: from plans to tables and pictures, compared with the accepted tables.

use std::path::Path;

use super::plan::SlabPlan;
use super::plot::plot;
use super::simulate::simulate;
use crate::error::Result;
use crate::figure::{Figure, keep};
use crate::file;
use crate::measured::{self, MeasuredPlan};

/// Redraws every plan in `dir`, if the directory exists. Measurements are kept.
pub fn figures(dir: &Path) -> Result<Vec<Figure>> {
    let draw = |plan: &SlabPlan| {
        let table = simulate(plan);
        keep(dir, &plan.name, table, |table| plot(plan, table))
    };
    let mut figures: Vec<_> = plans(dir)?.iter().map(draw).collect::<Result<_>>()?;
    figures.extend(measured::redraw(dir, &measured_plans(dir)?)?);
    Ok(figures)
}

/// Reads the plans in `dir`, sorted by name, without those of [`measured_plans`].
pub fn plans(dir: &Path) -> Result<Vec<SlabPlan>> {
    let files = file::plans_if_any(dir)?.into_iter();
    let files = files.filter(|file| !is_measured(file));
    file::read_all(files, SlabPlan::parse)
}

/// Reads the plans of measurements with real programs, in files named `gateway-*`.
pub fn measured_plans(dir: &Path) -> Result<Vec<MeasuredPlan>> {
    let files = file::plans_if_any(dir)?.into_iter();
    let files = files.filter(|file| is_measured(file));
    file::read_all(files, MeasuredPlan::parse)
}

fn is_measured(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with("gateway-")
}
