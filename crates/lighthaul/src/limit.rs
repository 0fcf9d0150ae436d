//! Timetable of rate limits, in the form that both sides read.

use std::str::FromStr;

use lighthaul_base::{ParseTimetableError, Timetable};

/// Timetable of rate limits in local time, as in `10M`, or `08:00,10M 18:00,off`.
#[derive(Clone, Debug)]
pub struct Limit {
    pub(crate) text: String,
    pub(crate) table: Timetable,
}

impl FromStr for Limit {
    type Err = ParseTimetableError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let table = text.parse()?;
        Ok(Self {
            text: text.to_owned(),
            table,
        })
    }
}
