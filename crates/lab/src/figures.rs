//! Figures of the papers: from plans to tables and pictures, compared with the accepted tables.

use std::path::Path;

use crate::beside;
use crate::circuit_use::CircuitPlan;
use crate::contest;
use crate::error::Result;
use crate::figure::{Figure, Source, draw, keep};
use crate::file;
use crate::latency;
use crate::measured;
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
    figures.extend(of_other_plans(dir, Source::Simulated)?);
    Ok(figures)
}

/// Draws every plan in `dir` from its accepted table. Writes nothing.
pub fn redrawn(dir: &Path) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for plan in plans(dir)? {
        let drawing = |table: &Table| plot(&plan, table);
        let none = || Ok(Table::default());
        figures.push(draw((dir, &plan.name), Source::Accepted, none, drawing)?);
    }
    figures.extend(contest::figures::redrawn(&dir.join("contests"))?);
    figures.extend(of_other_plans(dir, Source::Accepted)?);
    Ok(figures)
}

/// Draws the plans in `dir` that have no part in the measurements of `emulate`.
fn of_other_plans(dir: &Path, source: Source) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for plan in vector_plans(dir)? {
        let drawing = |table: &Table| plan.plot(table);
        let table = || Ok(plan.simulate());
        figures.push(draw((dir, &plan.name), source, table, drawing)?);
    }
    for plan in circuit_plans(dir)? {
        let drawing = |table: &Table| plan.plot(table);
        let table = || Ok(plan.simulate());
        figures.push(draw((dir, &plan.name), source, table, drawing)?);
    }
    figures.extend(beside::figures::figures(&dir.join("beside"), source)?);
    figures.extend(latency::figures::figures(&dir.join("latency"), source)?);
    figures.extend(slabs::figures::figures(&dir.join("slabs"), source)?);
    let tools = dir.join("tools");
    figures.extend(measured::redraw(&tools, &measured::plans(&tools)?, source)?);
    for crowd in shared_link_plans(dir)? {
        let drawing = |table: &Table| plot_shared_link(&crowd, table);
        let table = || Ok(crowd.simulate());
        figures.push(draw((dir, &crowd.name), source, table, drawing)?);
    }
    Ok(figures)
}

/// Reads the plans in `dir`, sorted by name, except [`vector_plans`], [`circuit_plans`] and [`shared_link_plans`].
pub fn plans(dir: &Path) -> Result<Vec<Plan>> {
    let files = file::plans(dir)?.into_iter();
    let files = files.filter(|file| !is_vector(file) && !is_circuit(file) && !is_shared_link(file));
    file::read_all(files, Plan::parse)
}

/// Reads the plans of transfers that follow a TRC vector, in files named `vbtp-*`.
pub fn vector_plans(dir: &Path) -> Result<Vec<VectorPlan>> {
    let files = file::plans(dir)?.into_iter().filter(|file| is_vector(file));
    file::read_all(files, VectorPlan::parse)
}

/// Reads the plans of copies on a circuit, in files named `circuit-*`.
pub fn circuit_plans(dir: &Path) -> Result<Vec<CircuitPlan>> {
    let files = file::plans(dir)?
        .into_iter()
        .filter(|file| is_circuit(file));
    file::read_all(files, CircuitPlan::parse)
}

/// Reads the plans of several SABUL flows, in files named `sabul-*`.
pub fn shared_link_plans(dir: &Path) -> Result<Vec<SharedLinkPlan>> {
    let files = file::plans(dir)?
        .into_iter()
        .filter(|file| is_shared_link(file));
    file::read_all(files, SharedLinkPlan::parse)
}

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

fn is_circuit(file: &Path) -> bool {
    begins(file, "circuit-")
}

fn is_shared_link(file: &Path) -> bool {
    begins(file, "sabul-")
}

fn begins(file: &Path, with: &str) -> bool {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(with)
}
