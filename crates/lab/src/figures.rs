//! Figures of the papers: from plans to tables and pictures, compared with the accepted tables.

use std::path::{Path, PathBuf};

use crate::booking;
use crate::contest;
use crate::error::Result;
use crate::file;
use crate::latency;
use crate::plan::{Case, Plan, Series};
use crate::plot::{plot, plot_shared_link};
use crate::shared_link_plan::SharedLinkPlan;
use crate::simulate::simulate;
use crate::slabs;
use crate::table::{EMULATION, Table};
use crate::vector::VectorPlan;

/// Function that measures a case in real time. Returns its goodput in Mb/s, or `None` if this host
/// cannot measure it.
pub type Emulate<'a> = &'a mut dyn FnMut(&Case) -> Result<Option<f64>>;

/// Figure that was drawn.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of its files.
    pub name: String,
    /// Table of its values.
    pub table: Table,
    /// Path of the picture.
    pub picture: PathBuf,
    /// Differences from the accepted table, as sentences. Measurements are not compared.
    pub differences: Vec<String>,
}

/// Redraws every plan in `dir`: `x.toml` becomes `x.csv` and `x.png`.
///
/// Without `emulate`, keeps the measurements in `x.csv`.
pub fn figures(dir: &Path, mut emulate: Option<Emulate<'_>>) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for plan in plans(dir)? {
        let mut table = simulate(&plan);
        if let Some(emulate) = &mut emulate {
            measure(&plan, &mut table, emulate)?;
        }
        figures.push(keep(dir, &plan.name, table, |table| plot(&plan, table))?);
    }
    figures.extend(contest::figures::figures(
        &dir.join("contests"),
        emulate.is_some(),
    )?);
    for plan in vector_plans(dir)? {
        let draw = |table: &Table| plan.plot(table);
        figures.push(keep(dir, &plan.name, plan.simulate(), draw)?);
    }
    figures.extend(latency::figures::figures(&dir.join("latency"))?);
    figures.extend(slabs::figures::figures(&dir.join("slabs"))?);
    figures.extend(booking::figures::figures(&dir.join("booking"))?);
    for crowd in shared_link_plans(dir)? {
        let draw = |table: &Table| plot_shared_link(&crowd, table);
        figures.push(keep(dir, &crowd.name, crowd.simulate(), draw)?);
    }
    Ok(figures)
}

/// Reads the plans in `dir`, sorted by name, without those of [`vector_plans`] and [`shared_link_plans`].
pub fn plans(dir: &Path) -> Result<Vec<Plan>> {
    let files = file::plans(dir)?.into_iter();
    let files = files.filter(|file| !is_vector(file) && !is_shared_link(file));
    files.map(|file| Plan::read(&file)).collect()
}

/// Reads the plans of transfers that follow a TRC vector, in files named `vbtp-*`.
pub fn vector_plans(dir: &Path) -> Result<Vec<VectorPlan>> {
    let files = file::plans(dir)?.into_iter().filter(|file| is_vector(file));
    files.map(|file| VectorPlan::read(&file)).collect()
}

/// Reads the plans of several SABUL flows, in files named `sabul-*`.
pub fn shared_link_plans(dir: &Path) -> Result<Vec<SharedLinkPlan>> {
    let files = file::plans(dir)?
        .into_iter()
        .filter(|file| is_shared_link(file));
    files.map(|file| SharedLinkPlan::read(&file)).collect()
}

/// Reads the accepted table of the plan `name`. Returns `None` if there is none.
pub fn accepted(dir: &Path, name: &str) -> Result<Option<Table>> {
    let file = dir.join(format!("{name}.csv"));
    if !file.exists() {
        return Ok(None);
    }
    file::read(&file, |_, text| Table::from_csv(text)).map(Some)
}

/// Relative difference that counts as equal. Simulations repeat exactly, except with another
/// compiler.
pub const TOLERANCE: f64 = 0.001;

/// Measures every point and fills the columns of the emulation.
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

fn is_vector(file: &Path) -> bool {
    begins(file, "vbtp-")
}

fn is_shared_link(file: &Path) -> bool {
    begins(file, "sabul-")
}

fn begins(file: &Path, with: &str) -> bool {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(with)
}

/// Writes a figure's table and picture, with the accepted measurements. Compares the table with the
/// accepted one.
pub(crate) fn keep(
    dir: &Path,
    name: &str,
    mut table: Table,
    draw: impl Fn(&Table) -> Result<Vec<u8>>,
) -> Result<Figure> {
    let mut differences = Vec::new();
    if let Some(accepted) = accepted(dir, name)? {
        differences = table.differences(&accepted, TOLERANCE);
        table.fill_from(&accepted, EMULATION);
    }
    let picture = dir.join(format!("{name}.png"));
    file::write(&dir.join(format!("{name}.csv")), table.to_csv().as_bytes())?;
    file::write(&picture, &draw(&table)?)?;
    Ok(Figure {
        name: name.into(),
        table,
        picture,
        differences,
    })
}
