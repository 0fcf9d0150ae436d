//! Figure of a paper: its table and its picture, compared with the accepted table.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::file;
use crate::table::{EMULATION, Table};

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

/// Reads the accepted table of the plan `name`. Returns `None` if there is none.
pub fn accepted(dir: &Path, name: &str) -> Result<Option<Table>> {
    let file = dir.join(format!("{name}.csv"));
    if !file.exists() {
        return Ok(None);
    }
    file::read(&file, |_, text| Table::from_csv(text)).map(Some)
}

/// Writes a figure's table and picture, with the accepted measurements. Compares the table with the
/// accepted one.
pub fn keep(
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

/// Relative difference that counts as equal. Simulations repeat exactly, except with another
/// compiler.
pub const TOLERANCE: f64 = 0.001;
