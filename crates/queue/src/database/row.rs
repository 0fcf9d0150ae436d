//! Rows of results.

use crate::error::{Error, Result};
use crate::job::{JobId, JobState};

/// Row of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row(pub(super) Vec<Cell>);

/// Value in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Row {
    /// Returns the value in the column `nth`, from 0.
    pub(crate) fn get<T: FromCell>(&self, nth: usize) -> Result<T> {
        let cell = self.0.get(nth);
        cell.and_then(T::from_cell).ok_or(Error::Value(nth))
    }
}

/// Type of a column.
pub(crate) trait FromCell: Sized {
    /// Returns the value, or none if the cell has another type or is out of range.
    fn from_cell(cell: &Cell) -> Option<Self>;
}

impl FromCell for i64 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Number(number) => Some(*number),
            Cell::Null | Cell::Text(_) | Cell::Bytes(_) => None,
        }
    }
}

/// Implements the types that are numbers of limited range.
macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl FromCell for $number {
            fn from_cell(cell: &Cell) -> Option<Self> {
                i64::from_cell(cell)?.try_into().ok()
            }
        }
    )+};
}

numbers!(u64, u32, i32, u8);

impl FromCell for bool {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl FromCell for String {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text.clone()),
            Cell::Null | Cell::Number(_) | Cell::Bytes(_) => None,
        }
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Bytes(octets) => Some(octets.clone()),
            Cell::Null | Cell::Number(_) | Cell::Text(_) => None,
        }
    }
}

impl FromCell for JobId {
    fn from_cell(cell: &Cell) -> Option<Self> {
        u64::from_cell(cell).map(Self)
    }
}

impl FromCell for JobState {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).and_then(Self::of_number)
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            Cell::Number(_) | Cell::Text(_) | Cell::Bytes(_) => T::from_cell(cell).map(Some),
        }
    }
}
