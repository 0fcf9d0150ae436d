//! Figures of domains: from plans to tables and pictures, compared with the accepted tables.

use std::path::Path;

use super::plan::DomainsPlan;
use super::plot::plot;
use super::simulate::simulate;
use lighthaul_lab::error::Result;
use lighthaul_lab::figure::{Figure, Source, draw};
use lighthaul_lab::file;
use lighthaul_lab::table::Table;

/// Redraws every plan in `dir`, if the directory exists.
pub fn figures(dir: &Path, source: Source) -> Result<Vec<Figure>> {
    let redraw = |plan: &DomainsPlan| {
        let drawing = |table: &Table| plot(plan, table);
        draw((dir, &plan.name), source, || Ok(simulate(plan)), drawing)
    };
    plans(dir)?.iter().map(redraw).collect()
}

/// Reads the plans in `dir`, sorted by name.
pub fn plans(dir: &Path) -> Result<Vec<DomainsPlan>> {
    let files = file::plans_if_any(dir)?.into_iter();
    file::read_all(files, DomainsPlan::parse)
}
