//! Figures of measurements with real programs.
//!
//! `cargo xtask gateways` and `cargo xtask bench` measure [`Sample`]s. A [`MeasuredPlan`] names the
//! columns and panels of the figure, averages samples of one cell into a [`Table`], and draws it.
//! Cells that were not measured keep their accepted values, so a part of a figure can be measured
//! alone. Nothing is measured or judged here.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::Result;
use crate::figure::{Figure, Source, accepted, draw, keep};
use crate::file;
use crate::panels::{Panel, Sheet};
use crate::plot::misuse;
use crate::table::{EMULATION, Table};

/// Figure of measurements.
#[derive(Clone, Debug)]
pub struct MeasuredPlan {
    /// Name of the figure's files.
    pub name: String,
    settings: Settings,
}

/// Keys of the file of a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    /// Column and label of the variable on the horizontal axis.
    key: String,
    below: String,
    #[serde(default)]
    is_log: bool,
    #[serde(rename = "panel")]
    panels: Vec<Panel>,
}

/// Measurement: its column, the value of the variable, and the result.
pub type Sample = (String, f64, f64);

/// Reads the plans in `dir`, sorted by name. Returns none if there is no such directory.
pub fn plans(dir: &Path) -> Result<Vec<MeasuredPlan>> {
    let files = file::plans_if_any(dir)?;
    file::read_all(files, MeasuredPlan::parse)
}

/// Draws the accepted tables of `plans` again.
pub(crate) fn redraw(dir: &Path, plans: &[MeasuredPlan], source: Source) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for plan in plans {
        if let Some(table) = accepted(dir, &plan.name)? {
            let drawing = |table: &Table| plan.plot(table);
            figures.push(draw((dir, &plan.name), source, || Ok(table), drawing)?);
        }
    }
    Ok(figures)
}

impl MeasuredPlan {
    /// Reads a plan's file, which names the figure.
    pub fn read(file: &Path) -> Result<Self> {
        file::read(file, Self::parse)
    }

    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, String> {
        let mut settings: Settings = file::settings(text)?;
        let curves = settings
            .panels
            .iter_mut()
            .flat_map(|panel| &mut panel.curves);
        curves.for_each(|curve| curve.name.push_str(EMULATION));
        Ok(Self {
            name: name.to_owned(),
            settings,
        })
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> Vec<String> {
        let curves = self.settings.panels.iter().flat_map(|panel| &panel.curves);
        let names = curves.map(|curve| curve.name.clone());
        std::iter::once(self.settings.key.clone())
            .chain(names)
            .collect()
    }

    /// Creates the table of samples. Samples of the same cell are averaged.
    pub fn table(&self, samples: &[Sample]) -> Table {
        let columns = self.columns();
        let mut keys: Vec<f64> = samples.iter().map(|sample| sample.1).collect();
        keys.sort_by(f64::total_cmp);
        keys.dedup();
        let row = |key: &f64| {
            let mut sums: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
            for (name, at, value) in samples {
                if at.total_cmp(key).is_eq() {
                    let sum = sums.entry(name).or_default();
                    *sum = (sum.0 + value, sum.1 + 1);
                }
            }
            let cell = |column: &String| {
                let sum = sums.get(column.strip_suffix(EMULATION)?)?;
                Some(sum.0 / f64::from(sum.1))
            };
            let cells = columns.iter().skip(1).map(cell);
            std::iter::once(Some(*key)).chain(cells).collect()
        };
        Table {
            rows: keys.iter().map(row).collect(),
            columns,
        }
    }

    /// Draws a table. Returns a PNG image.
    pub fn plot(&self, table: &Table) -> Result<Vec<u8>> {
        let settings = &self.settings;
        Sheet {
            title: &settings.title,
            below: &settings.below,
            is_log: settings.is_log,
            panels: &settings.panels,
        }
        .plot(table)
        .map_err(misuse(&self.name))
    }

    /// Writes the figure's files. Keeps accepted cells that `table` lacks.
    pub fn keep(&self, dir: &Path, table: Table) -> Result<Figure> {
        keep(dir, &self.name, table, |table| self.plot(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        key = "seconds"
        below = "time, s"
        [[panel]]
        label = "Mb/s"
        curve = [{ name = "a", label = "A" }, { name = "b", label = "B", dashed = true }]
    "#;

    #[test]
    fn samples_of_one_cell_are_averaged() {
        let plan = MeasuredPlan::parse("p", PLAN).unwrap();
        let sample = |name: &str, key, value| (name.to_owned(), key, value);
        let samples = [
            sample("a", 20.0, 7.0),
            sample("b", 3.0, 1.0),
            sample("b", 3.0, 2.0),
        ];
        let table = plan.table(&samples);
        assert_eq!(
            table.to_csv(),
            "seconds,a_emulation,b_emulation\n3,,1.50\n20,7.00,\n"
        );
    }

    #[test]
    fn invalid_plan_is_rejected() {
        let wrong = PLAN.replace("below", "above");
        assert!(MeasuredPlan::parse("p", &wrong).is_err());
    }
}
