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
