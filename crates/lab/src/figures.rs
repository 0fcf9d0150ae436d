//! The papers' figures: plans to tables and pictures, beside what was accepted.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::plan::{Case, Plan, Series};
use crate::plot::plot;
use crate::simulate::simulate;
use crate::table::{EMULATION, Table};

/// Emulates a case in real time; answers its goodput in Mb/s, or nothing where this machine cannot.
pub type Emulate<'a> = &'a mut dyn FnMut(&Case) -> Result<Option<f64>>;

/// One figure that was drawn.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What its files are called.
    pub name: String,
    /// Its numbers.
    pub table: Table,
    /// The picture.
    pub picture: PathBuf,
    /// What is not as it was accepted, as sentences; what was measured is not compared.
    pub differences: Vec<String>,
}

/// Draws every plan in `dir` again: `x.toml` to `x.csv` and `x.png`.
///
/// Without `emulate` the measurements that `x.csv` has are kept.
pub fn figures(dir: &Path, mut emulate: Option<Emulate<'_>>) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for plan in plans(dir)? {
        let mut table = simulate(&plan);
        if let Some(emulate) = &mut emulate {
            measure(&plan, &mut table, emulate)?;
        }
        figures.push(keep(dir, &plan, table)?);
    }
    Ok(figures)
}

/// The plans in `dir`, by name.
pub fn plans(dir: &Path) -> Result<Vec<Plan>> {
    let what = || format!("read {}", dir.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::world(what()))? {
        files.push(entry.map_err(Error::world(what()))?.path());
    }
    files.retain(|file| file.extension().is_some_and(|tail| tail == "toml"));
    files.sort();
    files.iter().map(|file| Plan::read(file)).collect()
}

/// The table that was accepted for a plan, if there is one.
pub fn accepted(dir: &Path, plan: &Plan) -> Result<Option<Table>> {
    let file = dir.join(format!("{}.csv", plan.name));
    if !file.exists() {
        return Ok(None);
    }
    let what = format!("read {}", file.display());
    let text = fs::read_to_string(&file).map_err(Error::world(what))?;
    let table = Table::from_csv(&text);
    table
        .map(Some)
        .map_err(|why| Error::Misuse(format!("{}: {why}", file.display())))
}

/// A simulation repeats its numbers to the last digit; this much may come of another compiler's.
pub const TOLERANCE: f64 = 0.001;

/// Fills the columns for emulation.
fn measure(plan: &Plan, table: &mut Table, emulate: &mut Emulate<'_>) -> Result<()> {
    for (nth, value) in plan.values.iter().enumerate() {
        for series in &plan.series {
            let goodput = emulate(&plan.case(series, *value))?;
            if let Some(column) = column(table, series) {
                table.rows[nth][column] = goodput;
            }
        }
    }
    Ok(())
}

fn column(table: &Table, series: &Series) -> Option<usize> {
    let name = format!("{}{EMULATION}", series.name);
    table.columns.iter().position(|column| *column == name)
}

/// Writes a figure's files.
fn keep(dir: &Path, plan: &Plan, mut table: Table) -> Result<Figure> {
    let mut differences = Vec::new();
    if let Some(accepted) = accepted(dir, plan)? {
        differences = table.differences(&accepted, TOLERANCE);
        table.fill_from(&accepted, EMULATION);
    }
    let picture = dir.join(format!("{}.png", plan.name));
    write(
        &dir.join(format!("{}.csv", plan.name)),
        table.to_csv().as_bytes(),
    )?;
    write(&picture, &plot(plan, &table)?)?;
    Ok(Figure {
        name: plan.name.clone(),
        table,
        picture,
        differences,
    })
}

fn write(file: &Path, octets: &[u8]) -> Result<()> {
    let what = format!("write {}", file.display());
    fs::write(file, octets).map_err(Error::world(what))
}
