//! Parameters of statements.

use crate::job::{JobId, JobState};

/// Parameter of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Number, or none.
    Number(Option<i64>),
    /// Text, or none.
    Text(Option<&'a str>),
    /// Octets.
    Bytes(&'a [u8]),
}

impl From<u64> for Value<'_> {
    /// Cuts numbers above the greatest of a column, 2^63 - 1.
    fn from(value: u64) -> Self {
        Self::Number(Some(i64::try_from(value).unwrap_or(i64::MAX)))
    }
}

impl From<Option<u64>> for Value<'_> {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::Number(None), Self::from)
    }
}

impl From<usize> for Value<'_> {
    fn from(value: usize) -> Self {
        Self::from(u64::try_from(value).unwrap_or(u64::MAX))
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Number(Some(value.into()))
    }
}

impl From<i32> for Value<'_> {
    fn from(value: i32) -> Self {
        Self::Number(Some(value.into()))
    }
}

impl From<Option<u8>> for Value<'_> {
    fn from(value: Option<u8>) -> Self {
        Self::Number(value.map(i64::from))
    }
}

impl From<JobId> for Value<'_> {
    fn from(JobId(id): JobId) -> Self {
        id.into()
    }
}

impl From<JobState> for Value<'_> {
    fn from(state: JobState) -> Self {
        Self::Number(Some(state.number()))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(octets: &'a [u8]) -> Self {
        Self::Bytes(octets)
    }
}
