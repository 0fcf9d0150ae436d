//! Points in time as ISO 8601.
//!
//! A [`Timestamp`] counts nanoseconds since 1970 in UTC. It is read with any offset from UTC, and
//! written in UTC. It converts to the [`Instant`] of the calendar and to the [`WallTime`] of
//! circuits without loss. Text outside the format or the range fails with a [`TimestampError`],
//! which shows a valid example or the latest date. This module reads no clock.

use std::fmt;
use std::str::FromStr;

use crate::reservation::WallTime;
use jiff;
use lighthaul_base::{CivilTime, Instant};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Point in time in nanoseconds since 1970, by the clock of the host. As text it is ISO 8601 in
/// UTC.
///
/// Times before 1970 are read as 1970. Times after July 2554 are refused, because 64 bits cannot
/// hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the same time in the type of the calendar.
    pub const fn instant(self) -> Instant {
        Instant::from_nanos(self.0)
    }

    /// Returns the last whole second that is not after this time.
    #[must_use]
    pub const fn second_before(self) -> Self {
        Self(self.0 - self.0 % SECOND)
    }

    /// Returns the first whole second that is not before this time.
    #[must_use]
    pub const fn second_after(self) -> Self {
        match self.0.checked_next_multiple_of(SECOND) {
            Some(nanos) => Self(nanos),
            None => self.second_before(),
        }
    }
}

impl From<Instant> for Timestamp {
    fn from(at: Instant) -> Self {
        Self(at.as_nanos())
    }
}

impl From<WallTime> for Timestamp {
    fn from(at: WallTime) -> Self {
        Self(at.0)
    }
}

impl From<Timestamp> for WallTime {
    fn from(at: Timestamp) -> Self {
        Self(at.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(at) => at.fmt(f),
            Err(_) => Err(fmt::Error),
        }
    }
}

/// Fault in the text of a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// The text is not in the expected format.
    #[error(
        "write a time as in 2031-05-01T06:00:00Z, or with an offset, as in 2031-05-01T08:00:00+02:00"
    )]
    Form,
    /// The time is too late for 64 bits of nanoseconds.
    #[error("{0} is too far ahead: give a time before 2554-07-21")]
    Far(String),
}

impl TimestampError {
    /// Returns the fault of a text with a time that is too late.
    pub fn far(text: &str) -> Self {
        Self::Far(text.trim().chars().take(SHOWN_MAX).collect())
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let written: CivilTime = text.parse().map_err(|_| TimestampError::Form)?;
        let nanos = written.unix_nanos().ok_or(TimestampError::Form)?;
        let nanos = u64::try_from(nanos.max(0));
        nanos.map(Self).map_err(|_| TimestampError::far(text))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Number of characters of a faulty text that a message quotes.
const SHOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_with_offsets_and_within_their_range() {
        for (text, nanos) in [
            ("1970-01-01T00:00:01Z", 1_000_000_000),
            ("2031-05-01T08:00:00.5+02:00", 1_935_381_600_500_000_000),
            ("1969-12-31T23:59:59Z", 0),
            ("2554-07-21T23:34:33.709551615Z", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Timestamp(nanos)), "{text}");
        }
        for text in [
            "",
            "now",
            "2031-05-01",
            "2031-05-01T06:00:00",
            "12",
            "2031-02-30T00:00:00Z",
            "2031-05-01T06:00:00+25:00",
        ] {
            assert_eq!(
                text.parse::<Timestamp>(),
                Err(TimestampError::Form),
                "{text}"
            );
        }
        for text in ["9999-12-31T23:59:59Z", "2554-07-22T00:00:00Z"] {
            let why = text.parse::<Timestamp>().unwrap_err().to_string();
            assert!(
                why.starts_with(&format!("{text} is too far ahead")),
                "{why}"
            );
        }
    }

    #[test]
    fn times_are_rounded_to_whole_seconds() {
        for (nanos, before, after) in [
            (0, 0, 0),
            (1, 0, SECOND),
            (2 * SECOND, 2 * SECOND, 2 * SECOND),
            (3 * SECOND - 1, 2 * SECOND, 3 * SECOND),
            (u64::MAX, 18_446_744_073 * SECOND, 18_446_744_073 * SECOND),
        ] {
            let at = Timestamp(nanos);
            assert_eq!(
                (at.second_before().0, at.second_after().0),
                (before, after),
                "{nanos}"
            );
        }
    }

    proptest! {
        #[test]
        fn time_round_trips(nanos: u64) {
            prop_assert_eq!(Timestamp(nanos).to_string().parse(), Ok(Timestamp(nanos)));
        }
    }
}
