//! Times and durations on the command line.

use std::str::FromStr;
use std::time::Duration;

use lighthaul_base::{CivilTime, ParseCivilTimeError, duration};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::json::timestamp::TimestampError;
use lighthaul_io::host::clock::unix_of_local;

/// Point in time: local time, or with a UTC offset. A time of day without a date is the next one.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub Timestamp);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || ParseCivilTimeError::Form.to_string();
        let written: CivilTime = text.parse().map_err(|why| format!("{why}"))?;
        let nanos = if written.offset.is_some() {
            written.unix_nanos().ok_or_else(malformed)?
        } else {
            let date = written.date;
            let date = date.map(|date| [date.year.into(), date.month.into(), date.day.into()]);
            let time = [written.hour, written.minute, written.second].map(i32::from);
            let seconds = unix_of_local(date, time).ok_or_else(malformed)?;
            i128::from(seconds) * 1_000_000_000 + i128::from(written.nanos)
        };
        let far = |_| TimestampError::far(text).to_string();
        u64::try_from(nanos.max(0))
            .map(Timestamp)
            .map(Self)
            .map_err(far)
    }
}

/// Parses a duration above zero.
pub fn positive(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(Duration::ZERO) => Err("a duration above zero is required, as in 30s or 2m".to_owned()),
        parsed => parsed.map_err(|why| why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_io::host::clock::unix_nanos;

    use super::*;

    fn seconds(text: &str) -> u64 {
        let Time(at) = text.parse().expect(text);
        at.0 / 1_000_000_000
    }

    #[test]
    fn time_of_day_means_the_next_occurrence_in_local_time() {
        let now = unix_nanos() / 1_000_000_000;
        for text in ["0:00", "18:30", "23:59:59"] {
            let at = seconds(text);
            assert!(at + 1 > now && at <= now + 25 * 3600, "{text}: {at}");
        }
    }

    #[test]
    fn date_and_time_parse_with_and_without_offset() {
        let early = seconds("2031-05-01T06:00");
        assert_eq!(seconds("2031-05-01 06:01:01") - early, 61);
        assert_eq!(seconds("2031-05-01T06:00:00+02:00"), 1_935_374_400);
        for text in [
            "18:30",
            "2028-02-29T00:00",
            "2026-11-22T07:45:58.443056638Z",
        ] {
            assert!(text.parse::<Time>().is_ok(), "{text}");
        }
    }

    #[test]
    fn missing_days_and_times_too_far_away_are_refused() {
        for text in [
            "",
            "noon",
            "24:00",
            "18:30Z",
            "2026-11-31T00:00",
            "2026-02-30 00:00",
            "2026-13-01T00:00",
            "2026-02-30T00:00:00Z",
        ] {
            let why = text.parse::<Time>().unwrap_err();
            assert!(why.contains("as in"), "{text}: {why}");
        }
        for text in ["9999-12-31T23:59", "9999-12-31T23:59:59Z"] {
            let why = text.parse::<Time>().unwrap_err();
            assert!(why.contains("is too far ahead"), "{why}");
        }
    }

    #[test]
    fn positive_duration_refuses_zero_and_bare_numbers() {
        assert_eq!(positive("2m"), Ok(Duration::from_mins(2)));
        for text in ["0", "0s", "6"] {
            assert!(positive(text).unwrap_err().contains("as in"), "{text}");
        }
    }
}
