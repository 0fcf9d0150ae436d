//! Figures of calendars: from plans to tables and pictures, compared with the accepted tables.

use std::path::{Path, PathBuf};

use super::delay::simulate;
use super::example::Example;
use super::plan::BookingPlan;
use super::plot::plot;
use lighthaul_lab::error::Result;
use lighthaul_lab::figure::{Figure, Source, draw};
use lighthaul_lab::file;
use lighthaul_lab::table::Table;

/// Redraws every plan in `dir`. Returns nothing if the directory does not exist.
pub fn figures(dir: &Path, source: Source) -> Result<Vec<Figure>> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let mut figures = Vec::new();
    for plan in plans(dir)? {
        let drawing = |table: &Table| plot(&plan, table);
        let table = || Ok(simulate(&plan));
        figures.push(draw((dir, &plan.name), source, table, drawing)?);
    }
    let example = Example::read(&example_file(dir))?;
    let drawing = |table: &Table| example.plot(table);
    let table = || Ok(example.simulate());
    figures.push(draw((dir, EXAMPLE), source, table, drawing)?);
    Ok(figures)
}

/// Reads the plans of delays in `dir`, sorted by name.
pub fn plans(dir: &Path) -> Result<Vec<BookingPlan>> {
    let files = file::plans(dir)?.into_iter();
    let files = files.filter(|file| *file != example_file(dir));
    file::read_all(files, BookingPlan::parse)
}

/// Returns the path of the plan for the paper's Figures 1 and 2.
pub fn example_file(dir: &Path) -> PathBuf {
    dir.join(format!("{EXAMPLE}.toml"))
}

const EXAMPLE: &str = "vbls-example";
