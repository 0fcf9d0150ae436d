//! Table of a figure: written as CSV, and compared with the accepted table.
//!
//! A [`Table`] has a row for each value of the variable, which is the first column. The suffix of a
//! column names its origin: [`MODEL`], [`EXPECTED`], [`SIMULATION`] or [`EMULATION`]. Emulated
//! columns are measurements: they are not compared, and a new table can keep the earlier ones.
//! Numbers have two decimals in the file. Tables neither read nor write files.

use std::fmt::Write as _;

/// Columns of numbers, some of them unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Names of the columns. The first column is the variable.
    pub columns: Vec<String>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Vec<Option<f64>>>,
}

impl Table {
    /// Formats the table as CSV, with two decimals, and empty cells for unknown numbers.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.join(",");
        text.push('\n');
        for row in &self.rows {
            for (nth, cell) in row.iter().enumerate() {
                let comma = if nth == 0 { "" } else { "," };
                let _ = match cell {
                    Some(number) if nth == 0 => write!(text, "{comma}{number}"),
                    Some(number) => write!(text, "{comma}{number:.2}"),
                    None => write!(text, "{comma}"),
                };
            }
            text.push('\n');
        }
        text
    }

    /// Parses the output of [`Table::to_csv`].
    pub fn from_csv(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let head = lines.next().ok_or("the table is empty")?;
        let columns: Vec<String> = head.split(',').map(String::from).collect();
        let mut rows = Vec::new();
        for line in lines {
            let row = line.split(',').map(cell).collect::<Result<Vec<_>, _>>()?;
            if row.len() != columns.len() {
                return Err(format!(
                    "the table has {} columns, but a row has {} cells",
                    columns.len(),
                    row.len()
                ));
            }
            rows.push(row);
        }
        Ok(Self { columns, rows })
    }

    /// Returns the number of `column` in the row that starts with `key`, if it is known.
    pub fn number(&self, key: f64, column: &str) -> Option<f64> {
        let nth = self.columns.iter().position(|name| name == column)?;
        let row = self
            .rows
            .iter()
            .find(|row| row.first() == Some(&Some(key)))?;
        row.get(nth).copied().flatten()
    }

    /// Returns the known points of a column, each with its row's variable.
    pub fn points(&self, column: &str) -> Vec<(f64, f64)> {
        let Some(nth) = self.columns.iter().position(|name| name == column) else {
            return Vec::new();
        };
        self.rows
            .iter()
            .filter_map(|row| Some((row.first().copied()??, row.get(nth).copied()??)))
            .collect()
    }

    /// Fills unknown cells, in columns with the suffix `tail`, from an earlier table.
    pub fn fill_from(&mut self, earlier: &Self, tail: &str) {
        for row in &mut self.rows {
            let Some(key) = row.first().copied().flatten() else {
                continue;
            };
            for (cell, column) in row.iter_mut().zip(&self.columns) {
                if cell.is_none() && column.ends_with(tail) {
                    *cell = earlier.number(key, column);
                }
            }
        }
    }

    /// Describes the differences from an `accepted` table that exceed the relative `tolerance`.
    ///
    /// Measurements vary, so columns with the suffix [`EMULATION`] are not compared.
    pub fn differences(&self, accepted: &Self, tolerance: f64) -> Vec<String> {
        let columns = self
            .columns
            .iter()
            .filter(|name| !name.ends_with(EMULATION));
        let mut differences = Vec::new();
        for (column, row) in
            columns.flat_map(|column| self.rows.iter().map(move |row| (column, row)))
        {
            let Some(key) = row.first().copied().flatten() else {
                continue;
            };
            let (now, then) = (self.number(key, column), accepted.number(key, column));
            let same = match (now, then) {
                // An accepted number has two decimals.
                (Some(now), Some(then)) => {
                    (now - then).abs() <= (then.abs() * tolerance).max(0.005)
                }
                (now, then) => now == then,
            };
            if !same {
                differences.push(format!("{column} at {key}: {now:?}, accepted {then:?}"));
            }
        }
        differences
    }
}

/// Suffix of columns of the model.
pub const MODEL: &str = "_model";
/// Suffix of columns of the model with the exact mean number of blasts.
pub const EXPECTED: &str = "_expected";
/// Suffix of columns of the simulation.
pub const SIMULATION: &str = "_simulation";
/// Suffix of columns of the emulation.
pub const EMULATION: &str = "_emulation";

fn cell(text: &str) -> Result<Option<f64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text
        .parse()
        .map_err(|_| format!("invalid number {text:?}"))?;
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            columns: ["rate_mbps", "a_simulation", "a_emulation"]
                .map(String::from)
                .into(),
            rows: vec![
                vec![Some(100.0), Some(98.25), None],
                vec![Some(200.0), None, Some(190.5)],
            ],
        }
    }

    #[test]
    fn table_round_trips_through_csv() {
        let text = table().to_csv();
        assert_eq!(
            text,
            "rate_mbps,a_simulation,a_emulation\n100,98.25,\n200,,190.50\n"
        );
        assert_eq!(Table::from_csv(&text), Ok(table()));
        for text in ["", "a,b\n1", "a\nx"] {
            assert!(Table::from_csv(text).is_err(), "{text}");
        }
    }

    #[test]
    fn measurements_are_not_compared() {
        let mut other = table();
        other.rows[1][2] = Some(1.0);
        assert!(other.differences(&table(), 0.01).is_empty());
        other.rows[0][1] = Some(98.3);
        assert!(other.differences(&table(), 0.01).is_empty());
        other.rows[0][1] = Some(97.0);
        assert_eq!(other.differences(&table(), 0.01).len(), 1);
        other.rows[0][1] = None;
        assert_eq!(other.differences(&table(), 0.01).len(), 1);
    }

    #[test]
    fn fill_from_keeps_earlier_measurements() {
        let mut new = table();
        new.rows[1][2] = None;
        new.fill_from(&table(), EMULATION);
        assert_eq!(new, table());
        assert_eq!(new.points("a_emulation"), [(200.0, 190.5)]);
    }
}
