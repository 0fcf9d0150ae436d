//! Moments as people write and read them.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::Offset;
use lighthaul_booking::word::Moment;
use lighthaul_booking::word::moment::NotAMoment;

use crate::later::LocalTime;

/// A moment: a local time, or one with an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(pub(crate) Moment);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.parse() {
            Ok(moment) => return Ok(Self(moment)),
            Err(why @ NotAMoment::Far(_)) => return Err(why.to_string()),
            Err(NotAMoment::Form) => {}
        }
        let local: LocalTime = text.parse()?;
        let seconds = u64::try_from(local.seconds()).unwrap_or(0);
        let nanos = seconds.checked_mul(1_000_000_000);
        let far = || NotAMoment::far(text).to_string();
        nanos.map(|nanos| Self(Moment(nanos))).ok_or_else(far)
    }
}

/// A moment in UTC, in a form of `strftime`.
pub(crate) fn written(at: Moment, form: &str) -> String {
    let at = Timestamp::from_nanosecond(i128::from(at.0)).unwrap_or(Timestamp::MAX);
    Offset::UTC.to_datetime(at).strftime(form).to_string()
}

/// A moment in UTC, to the millisecond if it is not a whole second.
pub(crate) fn shown(at: Moment) -> String {
    let form = if at.0.is_multiple_of(1_000_000_000) {
        "%Y-%m-%d %H:%M:%SZ"
    } else {
        "%Y-%m-%d %H:%M:%S%.3fZ"
    };
    written(at, form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_that_there_are_not_and_times_too_far_away_are_refused() {
        for text in [
            "2026-11-31T00:00",
            "2026-02-30 00:00",
            "2026-13-01T00:00",
            "2026-02-30T00:00:00Z",
        ] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        for text in ["9999-12-31T23:59", "9999-12-31T23:59:59Z"] {
            let why = text.parse::<Time>().unwrap_err();
            assert!(why.contains("further away than books reach"), "{why}");
        }
        for text in [
            "18:30",
            "2028-02-29T00:00",
            "2026-11-22T07:45:58.443056638Z",
        ] {
            assert!(text.parse::<Time>().is_ok(), "{text}");
        }
    }
}
