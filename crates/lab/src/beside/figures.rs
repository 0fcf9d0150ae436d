//! Figures of flows beside TCP: from plans to tables and pictures, compared with the accepted tables.

use std::path::Path;

use super::plan::BesidePlan;
use super::plot::plot;
use super::simulate::simulate;
use crate::error::Result;
use crate::figure::{Figure, Source, draw};
use crate::file;
use crate::table::Table;

/// Redraws every plan in `dir`, if the directory exists.
pub fn figures(dir: &Path, source: Source) -> Result<Vec<Figure>> {
    let redraw = |plan: &BesidePlan| {
        let drawing = |table: &Table| plot(plan, table);
        draw((dir, &plan.name), source, || Ok(simulate(plan)), drawing)
    };
    plans(dir)?.iter().map(redraw).collect()
}

/// Reads the plans in `dir`, sorted by name.
pub fn plans(dir: &Path) -> Result<Vec<BesidePlan>> {
    let files = file::plans_if_any(dir)?.into_iter();
    file::read_all(files, BesidePlan::parse)
}
