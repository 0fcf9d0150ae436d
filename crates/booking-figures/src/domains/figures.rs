//! Figures of domains: from plans to tables and pictures, compared with the accepted tables.

use std::path::Path;

use super::plan::DomainsPlan;
use super::plot::plot;
use super::simulate::simulate;
use lighthaul_lab::error::Result;
use lighthaul_lab::figure::{Figure, keep};
use lighthaul_lab::file;

/// Redraws every plan in `dir`, if the directory exists.
pub fn figures(dir: &Path) -> Result<Vec<Figure>> {
    let draw = |plan: &DomainsPlan| {
        let table = simulate(plan);
        keep(dir, &plan.name, table, |table| plot(plan, table))
    };
    plans(dir)?.iter().map(draw).collect()
}

/// Reads the plans in `dir`, sorted by name.
pub fn plans(dir: &Path) -> Result<Vec<DomainsPlan>> {
    let files = file::plans_if_any(dir)?.into_iter();
    file::read_all(files, DomainsPlan::parse)
}
