//! Figure of a paper: its table and its picture, compared with the accepted table.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file;
use crate::table::{EMULATION, Table};

/// Figure that was drawn.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of the figure's files.
    pub name: String,
    /// Table of the figure's values.
    pub table: Table,
    /// Path of the picture.
    pub picture: PathBuf,
    /// Picture as a PNG image.
    pub png: Vec<u8>,
    /// Differences from the accepted table, as sentences. Measurements are not compared.
    pub differences: Vec<String>,
}

/// Origin of the tables that are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Simulations. Tables and pictures are written.
    Simulated,
    /// Accepted tables. Nothing is written.
    Accepted,
}

/// Reads the accepted table of the plan `name`. Returns `None` if there is none.
pub fn accepted(dir: &Path, name: &str) -> Result<Option<Table>> {
    let file = dir.join(format!("{name}.csv"));
    if !file.exists() {
        return Ok(None);
    }
    file::read(&file, |_, text| Table::from_csv(text)).map(Some)
}

/// Draws a figure from its accepted table, or from a table that `simulate` returns. The latter is kept.
pub fn draw(
    (dir, name): (&Path, &str),
    source: Source,
    simulate: impl FnOnce() -> Result<Table>,
    draw: impl Fn(&Table) -> Result<Vec<u8>>,
) -> Result<Figure> {
    match source {
        Source::Simulated => keep(dir, name, simulate()?, draw),
        Source::Accepted => {
            let missing = || Error::Misuse(format!("{name}: there is no accepted table"));
            let table = accepted(dir, name)?.ok_or_else(missing)?;
            Ok(Figure {
                name: name.into(),
                picture: picture(dir, name),
                png: draw(&table)?,
                table,
                differences: Vec::new(),
            })
        }
    }
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
    file::write(&dir.join(format!("{name}.csv")), table.to_csv().as_bytes())?;
    // The file has fewer digits, and a picture is drawn again from it.
    let table = accepted(dir, name)?.unwrap_or(table);
    let figure = Figure {
        name: name.into(),
        picture: picture(dir, name),
        png: draw(&table)?,
        table,
        differences,
    };
    figure.write_picture()?;
    Ok(figure)
}

impl Figure {
    /// Writes the picture.
    pub fn write_picture(&self) -> Result<()> {
        file::write(&self.picture, &self.png)
    }
}

fn picture(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.png"))
}

/// Compares an accepted table with points that were simulated again. Returns its faults as sentences: numbers that
/// differ, and columns of which no point was simulated again.
pub fn faults(repeated: &[Table], accepted: &Table) -> Vec<String> {
    let mut faults: Vec<String> = repeated
        .iter()
        .flat_map(|table| table.differences(accepted, TOLERANCE))
        .collect();
    let simulated = accepted.columns.iter().skip(1);
    for column in simulated.filter(|column| !column.ends_with(EMULATION)) {
        let is_empty = accepted.points(column).is_empty();
        let is_repeated = repeated
            .iter()
            .any(|table| !table.points(column).is_empty());
        if !is_empty && !is_repeated {
            faults.push(format!("{column}: no point was simulated again"));
        }
    }
    faults
}

/// Relative difference that counts as equal. Simulations repeat exactly, except with another
/// compiler.
pub const TOLERANCE: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_differences_and_columns_without_a_repeated_point() {
        let read = |text| Table::from_csv(text).unwrap();
        let accepted =
            read("x,a_simulation,b_simulation,c_emulation,d_model\n1,5,6,7,\n2,8,9,1,\n");
        let repeated = [read("x,a_simulation\n2,8\n"), read("x,b_simulation\n1,6\n")];
        assert_eq!(faults(&repeated, &accepted), [""; 0]);
        let edited =
            read("x,a_simulation,b_simulation,c_emulation,d_model\n1,5,6,7,\n2,8.1,9,1,\n");
        assert_eq!(faults(&repeated, &edited).len(), 1);
        assert_eq!(
            faults(&repeated[..1], &accepted),
            ["b_simulation: no point was simulated again"]
        );
    }
}
