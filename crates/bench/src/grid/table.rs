//! Table of the grid as CSV. A run continues where an earlier one ended.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_session::protocol::Protocol;

use super::point::{Choice, Condition, Point};

/// Row of the table: a point with its results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) point: Point,
    /// Protocol that `auto` chose.
    pub(crate) protocol: Option<Protocol>,
    /// Values of the columns of numbers.
    values: Vec<Option<f64>>,
}

/// Column of numbers. Rates are in Mb/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Goodput of a choice.
    Goodput(Choice),
    /// Goodput of the neighbor beside a choice.
    Neighbor(Choice),
    /// Goodput of the neighbor beside a flow like itself.
    Equals,
    /// Rate that `auto` measured.
    Measured,
    /// Milliseconds before the first data of `auto`.
    BeforeData,
    /// Packets that `auto` sent again, in percent.
    Resent,
}

impl Column {
    /// Returns all columns in their order.
    fn all() -> Vec<Self> {
        let goodputs = Choice::all().into_iter().map(Self::Goodput);
        let neighbors = Condition::Cubic.choices().into_iter().map(Self::Neighbor);
        let rest = [Self::Equals, Self::Measured, Self::BeforeData, Self::Resent];
        goodputs.chain(neighbors).chain(rest).collect()
    }

    fn name(self) -> String {
        match self {
            Self::Goodput(choice) => choice.name().to_owned(),
            Self::Neighbor(choice) => format!("neighbor_of_{}", choice.name()),
            Self::Equals => "neighbor_of_equal".to_owned(),
            Self::Measured => "auto_measured".to_owned(),
            Self::BeforeData => "auto_before_data_ms".to_owned(),
            Self::Resent => "auto_resent_percent".to_owned(),
        }
    }

    fn index(self) -> Option<usize> {
        Self::all().iter().position(|column| *column == self)
    }
}

impl Row {
    /// Creates a row without results.
    pub(crate) fn new(point: Point) -> Self {
        Self {
            point,
            protocol: None,
            values: vec![None; Column::all().len()],
        }
    }

    /// Returns a value.
    pub(crate) fn value(&self, column: Column) -> Option<f64> {
        self.values.get(column.index()?).copied().flatten()
    }

    /// Sets a value, rounded to the precision of the file.
    pub(crate) fn set(&mut self, column: Column, value: f64) {
        if let Some(nth) = column.index() {
            self.values[nth] = Some((value * 1000.0).round() / 1000.0);
        }
    }

    /// Returns the line of the table.
    fn line(&self) -> String {
        let point = &self.point;
        let mut cells = vec![
            point.condition.name().to_owned(),
            point.rate.as_mbps_f64().to_string(),
            (point.rtt.as_secs_f64() * 1e3).to_string(),
            point.loss_percent().to_string(),
            point.queue().to_string(),
            self.protocol.map_or("", Protocol::name).to_owned(),
        ];
        let number =
            |value: &Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        cells.extend(self.values.iter().map(number));
        cells.join(",")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.split(',');
        let condition = cells.next()?;
        let mut number = || cells.next()?.parse::<f64>().ok();
        let (mbps, rtt_ms, loss, queue) = (number()?, number()?, number()?, number()?);
        let point = Point {
            condition: *Condition::ALL
                .iter()
                .find(|known| known.name() == condition)?,
            rate: Rate::from_bps(whole(mbps * 1e6))?,
            rtt: Duration::from_secs_f64(rtt_ms / 1e3),
            loss_ppb: whole(loss * 1e7),
            queue_milli: u32::try_from(whole(queue * 1e3)).ok()?,
        };
        let protocol = Protocol::named(cells.next()?);
        let values: Vec<Option<f64>> = cells.map(|cell| cell.parse().ok()).collect();
        (values.len() == Column::all().len()).then_some(Self {
            point,
            protocol,
            values,
        })
    }
}

/// Rows of all points that have results.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// Reads a table. A file that does not exist has no rows.
    pub(crate) fn read(file: &Path) -> io::Result<Self> {
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(file)?;
        Self::parse(&text).map_err(|why| io::Error::other(format!("{}: {why}", file.display())))
    }

    /// Parses a table.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(&head()) {
            return Err(
                "the columns differ from those of this version; remove the file".to_owned(),
            );
        }
        let row = |line: &str| Row::parse(line).ok_or_else(|| format!("invalid line {line:?}"));
        let rows = lines.map(row).collect::<Result<_, _>>()?;
        Ok(Self { rows })
    }

    /// Returns the row of a point.
    pub(crate) fn row(&self, point: &Point) -> Option<&Row> {
        self.rows.iter().find(|row| row.point == *point)
    }

    /// Writes the rows of `points` in their order.
    pub(crate) fn write(&mut self, file: &Path, points: &[Point]) -> io::Result<()> {
        let place = |row: &Row| points.iter().position(|point| *point == row.point);
        self.rows
            .sort_by_key(|row| place(row).unwrap_or(usize::MAX));
        let lines = self.rows.iter().map(Row::line);
        let text: Vec<String> = std::iter::once(head()).chain(lines).collect();
        // a reader never sees a part of it
        let part = file.with_extension("part");
        fs::write(&part, text.join("\n") + "\n")?;
        fs::rename(part, file)
    }
}

fn head() -> String {
    let names = Column::all().into_iter().map(Column::name);
    let keys = [
        "condition",
        "rate_mbps",
        "rtt_ms",
        "loss_percent",
        "queue_bdp",
        "auto_protocol",
    ];
    let keys = keys.into_iter().map(str::to_owned);
    keys.chain(names).collect::<Vec<_>>().join(",")
}

/// Returns the nearest whole number.
#[expect(clippy::cast_sign_loss, reason = "negative numbers become zero")]
fn whole(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_round_trips_through_its_file() {
        let mut row = Row::new(Point {
            condition: Condition::Bbr,
            rate: Rate::from_mbps(1000),
            rtt: Duration::from_millis(300),
            loss_ppb: 100_000,
            queue_milli: 50,
        });
        row.protocol = Some(Protocol::SabulSwift);
        row.set(Column::Goodput(Choice::Auto), 412.3456);
        row.set(Column::Equals, 7.0);
        let table = Table { rows: vec![row] };
        let folder = std::env::temp_dir().join(format!("lighthaul-grid-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("table.csv");
        let points = [table.rows[0].point];
        table.clone().write(&file, &points).unwrap();
        let read = Table::read(&file).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read, table);
        let goodput = read.rows[0].value(Column::Goodput(Choice::Auto));
        assert_eq!(goodput, Some(412.346));
        assert_eq!(read.rows[0].value(Column::Measured), None);
    }

    #[test]
    fn table_of_another_version_is_rejected() {
        assert!(Table::parse("condition,auto\n").is_err());
        assert!(Table::parse(&format!("{}\nalone,1,2\n", head())).is_err());
    }
}
