//! Figures of slabs: from plans to tables and pictures, compared with the accepted tables.

use std::path::Path;

use super::plan::SlabPlan;
use super::plot::plot;
use super::simulate::simulate;
use crate::error::Result;
use crate::figure::{Figure, Source, draw};
use crate::file;
use crate::measured::{self, MeasuredPlan};
use crate::table::Table;

/// Redraws every plan in `dir`, if the directory exists. Measurements are kept.
pub fn figures(dir: &Path, source: Source) -> Result<Vec<Figure>> {
    let redraw = |plan: &SlabPlan| {
        let drawing = |table: &Table| plot(plan, table);
        draw((dir, &plan.name), source, || Ok(simulate(plan)), drawing)
    };
    let mut figures: Vec<_> = plans(dir)?.iter().map(redraw).collect::<Result<_>>()?;
    figures.extend(measured::redraw(dir, &measured_plans(dir)?, source)?);
    Ok(figures)
}

/// Reads the plans in `dir`, sorted by name, except [`measured_plans`].
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
