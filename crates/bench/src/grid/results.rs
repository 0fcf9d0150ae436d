//! Results of an unfinished run.

use std::io::{self, Write as _};
use std::path::Path;

use super::point::Point;
use super::table::{Row, Table};

/// Results of an unfinished run, which each new row extends in the file.
pub(crate) struct Results<'a> {
    pub(crate) table: Table,
    pub(crate) points: &'a [Point],
    file: &'a Path,
    done: usize,
}

impl<'a> Results<'a> {
    /// Reads the rows of an earlier run.
    pub(crate) fn read(file: &'a Path, points: &'a [Point]) -> io::Result<Self> {
        Ok(Self {
            table: Table::read(file)?,
            points,
            file,
            done: 0,
        })
    }

    /// Returns the points without results.
    pub(crate) fn missing(&self) -> Vec<Point> {
        let missing = self.points.iter();
        let missing = missing.filter(|point| self.table.row(point).is_none());
        missing.copied().collect()
    }

    /// Adds a row, and writes the file.
    pub(crate) fn add(&mut self, row: Row, all: usize) -> io::Result<()> {
        self.done += 1;
        writeln!(io::stderr(), "{}/{all} {}", self.done, row.point).ok();
        self.table.rows.push(row);
        self.table.write(self.file, self.points)
    }
}
