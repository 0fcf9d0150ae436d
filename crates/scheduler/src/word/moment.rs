//! A moment as ISO 8601 has it.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use lighthaul_base::Instant;
use lighthaul_circuit::reservation::WallTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment of the world's clock, in nanoseconds since 1970; as text, ISO 8601 in UTC.
///
/// What is before that is its beginning, and what is after 2554 is its end, so that who asks for the year 9999 hears how far
/// bookings do reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The calendar's own way to say it.
    pub const fn instant(self) -> Instant {
        Instant::from_nanos(self.0)
    }
}

impl From<Instant> for Moment {
    fn from(at: Instant) -> Self {
        Self(at.as_nanos())
    }
}

impl From<WallTime> for Moment {
    fn from(at: WallTime) -> Self {
        Self(at.0)
    }
}

impl From<Moment> for WallTime {
    fn from(at: Moment) -> Self {
        Self(at.0)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(at) => at.fmt(f),
            Err(_) => Err(fmt::Error),
        }
    }
}

/// What was wrong with a time that somebody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a time is written as in 2031-05-01T06:00:00Z, or with an offset, as in 2031-05-01T08:00:00+02:00"
)]
pub struct NotAMoment;

impl FromStr for Moment {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Self, NotAMoment> {
        let at: Timestamp = text.trim().parse().map_err(|_| NotAMoment)?;
        let nanos = at.as_nanosecond().max(0);
        Ok(Self(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn offsets_are_understood_and_the_ends_of_time_are_near() {
        for (text, nanos) in [
            ("1970-01-01T00:00:01Z", 1_000_000_000),
            ("2031-05-01T08:00:00.5+02:00", 1_935_381_600_500_000_000),
            ("1969-12-31T23:59:59Z", 0),
            ("9999-12-30T00:00:00Z", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Moment(nanos)), "{text}");
        }
        for text in ["", "now", "2031-05-01", "2031-05-01T06:00:00", "12"] {
            assert_eq!(text.parse::<Moment>(), Err(NotAMoment), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_moment_survives_being_written(nanos: u64) {
            prop_assert_eq!(Moment(nanos).to_string().parse(), Ok(Moment(nanos)));
        }
    }
}
