//! The figures of latencies: plans to tables and pictures, beside what was accepted.

use std::fs;
use std::path::{Path, PathBuf};

use super::plan::LatencyPlan;
use super::plot::plot;
use super::simulate::simulate;
use crate::error::{Error, Result};
use crate::figures::{Figure, TOLERANCE};
use crate::table::Table;

/// Draws every plan in `dir` again, if there is such a folder.
pub fn figures(dir: &Path) -> Result<Vec<Figure>> {
    let draw = |plan: LatencyPlan| {
        let table = simulate(&plan)?;
        let accepted = accepted(dir, &plan)?;
        let differences = accepted.map_or_else(Vec::new, |old| table.differences(&old, TOLERANCE));
        let picture = dir.join(format!("{}.png", plan.name));
        write(
            &dir.join(format!("{}.csv", plan.name)),
            table.to_csv().as_bytes(),
        )?;
        write(&picture, &plot(&plan, &table)?)?;
        Ok(Figure {
            name: plan.name,
            table,
            picture,
            differences,
        })
    };
    plans(dir)?.into_iter().map(draw).collect()
}

/// The plans in `dir`, by name.
pub fn plans(dir: &Path) -> Result<Vec<LatencyPlan>> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Ok(Vec::new());
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|file| file.extension().is_some_and(|tail| tail == "toml"));
    files.sort();
    files.iter().map(|file| LatencyPlan::read(file)).collect()
}

/// The table that was accepted for a plan, if there is one.
pub fn accepted(dir: &Path, plan: &LatencyPlan) -> Result<Option<Table>> {
    let file = dir.join(format!("{}.csv", plan.name));
    let Ok(text) = fs::read_to_string(&file) else {
        return Ok(None);
    };
    let table = Table::from_csv(&text);
    table
        .map(Some)
        .map_err(|why| Error::Misuse(format!("{}: {why}", file.display())))
}

fn write(file: &Path, octets: &[u8]) -> Result<()> {
    let what = format!("write {}", file.display());
    fs::write(file, octets).map_err(Error::world(what))
}
