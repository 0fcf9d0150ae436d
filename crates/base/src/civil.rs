//! Dates and times of day as people write them: the forms of ISO 8601 and RFC 3339.
//!
//! A [`CivilTime`] is what the text says. With a date and a UTC offset it is a point in time
//! ([`CivilTime::unix_nanos`]); without an offset it is local time, which only the host's time zone can resolve.

use core::fmt;
use core::str::FromStr;

/// Time of day, with a date and a UTC offset if the text has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilTime {
    /// Day of the calendar.
    pub date: Option<Date>,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59. A leap second counts as the second before it.
    pub second: u8,
    /// Fraction of the second in nanoseconds.
    pub nanos: u32,
    /// Seconds that local time is ahead of UTC.
    pub offset: Option<i32>,
}

/// Day of the Gregorian calendar that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// Year, 0 to 9999.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, from 1.
    pub day: u8,
}

impl CivilTime {
    /// Returns the nanoseconds since 1970 in UTC, or `None` for a time without a date or without an offset.
    pub fn unix_nanos(self) -> Option<i128> {
        let day = self.date?.unix_days() * SECONDS_PER_DAY;
        let seconds = day + i64::from(self.second_of_day()) - i64::from(self.offset?);
        Some(i128::from(seconds) * 1_000_000_000 + i128::from(self.nanos))
    }

    /// Returns the seconds since midnight.
    pub fn second_of_day(self) -> u32 {
        u32::from(self.hour) * 3600 + u32::from(self.minute) * 60 + u32::from(self.second)
    }
}

impl Date {
    /// Returns this date, or `None` if the calendar does not have it.
    pub const fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        if year <= 9999 && day >= 1 && day <= days_of_month(year, month) {
            Some(Self { year, month, day })
        } else {
            None
        }
    }

    /// Returns the days since 1970-01-01; negative before that date.
    pub fn unix_days(self) -> i64 {
        // a year begins in March, so that the leap day is its last
        let month = (i64::from(self.month) + 9) % 12;
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let day_of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        365 * year + leap_days + day_of_year - DAYS_TO_1970
    }
}

const fn days_of_month(year: u16, month: u8) -> u8 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    }
}

/// Error for text that is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseCivilTimeError {
    /// The text does not have the form of a time.
    Form,
    /// The calendar does not have the day.
    NoSuchDay,
}

impl fmt::Display for ParseCivilTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => {
                "expected a time, as in 18:30, 2031-05-01T06:00 or 2031-05-01T06:00:00+02:00"
            }
            Self::NoSuchDay => {
                "the calendar has no such day: give year, month and day, as in 2031-05-01T06:00"
            }
        })
    }
}

impl core::error::Error for ParseCivilTimeError {}

impl FromStr for CivilTime {
    type Err = ParseCivilTimeError;

    /// Parses `18:30`, `18:30:59.5`, `2031-05-01T06:00`, `2031-05-01 06:00:00Z`, `2031-05-01T06:00:00+02:00` or
    /// `2031-05-01 06:00:00 +02:00`.
    fn from_str(text: &str) -> Result<Self, ParseCivilTimeError> {
        parse(text.trim()).ok_or(ParseCivilTimeError::Form)?
    }
}

/// Parses a time with date and UTC offset, or a number of seconds since 1970. Returns whole seconds since 1970, rounded
/// down, or `None` for another text. A time before 1970 counts as 1970.
pub fn unix_seconds(text: &str) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit()) {
        return text.parse().ok();
    }
    let time: CivilTime = text.parse().ok()?;
    let seconds = time.unix_nanos()?.max(0) / 1_000_000_000;
    u64::try_from(seconds).ok()
}

/// Parses a time. Returns `None` for another form, and an error for a day that does not exist.
fn parse(text: &str) -> Option<Result<CivilTime, ParseCivilTimeError>> {
    let (date, rest) = match text.split_once(['T', 't', ' ']) {
        Some((date, rest)) => (Some(ymd(date)?), rest),
        None => (None, text),
    };
    let (time, offset) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => {
            let time = &rest[..at];
            let offset = offset(&rest[at..])?;
            (time.strip_suffix(' ').unwrap_or(time), Some(offset))
        }
        None => (rest, None),
    };
    let (time, nanos) = match time.split_once(['.', ',']) {
        Some((time, fraction)) => (time, Some(fraction_nanos(fraction)?)),
        None => (time, None),
    };
    let mut fields = time.split(':');
    let hour = number(fields.next()?, 1..=2, 23)?;
    let minute = number(fields.next()?, 2..=2, 59)?;
    let second = fields.next().map(|text| number(text, 2..=2, 60));
    // only seconds have a fraction
    if fields.next().is_some() || second.is_none() && nanos.is_some() {
        return None;
    }
    let second = second.unwrap_or(Some(0))?.min(59);
    let date = match date {
        Some([year, month, day]) => {
            let Some(date) = Date::new(year, month as u8, day as u8) else {
                return Some(Err(ParseCivilTimeError::NoSuchDay));
            };
            Some(date)
        }
        None => None,
    };
    Some(Ok(CivilTime {
        date,
        hour: hour as u8,
        minute: minute as u8,
        second: second as u8,
        nanos: nanos.unwrap_or(0),
        offset,
    }))
}

/// Parses year, month and day, as in `2031-05-01`.
fn ymd(text: &str) -> Option<[u16; 3]> {
    let mut fields = text.split('-');
    let year = number(fields.next()?, 4..=4, 9999)?;
    let month = number(fields.next()?, 2..=2, 99)?;
    let day = number(fields.next()?, 2..=2, 99)?;
    fields.next().is_none().then_some([year, month, day])
}

/// Parses a UTC offset, as in `Z`, `+02:00`, `-0530` or `+02`. Returns seconds.
fn offset(text: &str) -> Option<i32> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let (sign, text) = match text.strip_prefix('+') {
        Some(text) => (1, text),
        None => (-1, text.strip_prefix('-')?),
    };
    let (hours, minutes) = match (text.split_once(':'), text.len()) {
        (Some(pair), _) => pair,
        (None, 4) => text.split_at_checked(2)?,
        (None, _) => (text, "00"),
    };
    let hours = i32::from(number(hours, 2..=2, 23)?);
    let minutes = i32::from(number(minutes, 2..=2, 59)?);
    Some(sign * (hours * 3600 + minutes * 60))
}

/// Parses the digits behind the decimal point of the seconds. Returns nanoseconds.
fn fraction_nanos(digits: &str) -> Option<u32> {
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|octet| octet.is_ascii_digit())
    {
        return None;
    }
    let number: u32 = digits.parse().ok()?;
    Some(number * 10_u32.pow(9 - digits.len() as u32))
}

/// Parses a number up to `most`, with a number of digits that is in `digits`.
fn number(text: &str, digits: core::ops::RangeInclusive<usize>, most: u16) -> Option<u16> {
    let is_plain = digits.contains(&text.len()) && text.bytes().all(|octet| octet.is_ascii_digit());
    let number = text.parse().ok().filter(|number| *number <= most);
    number.filter(|_| is_plain)
}

const SECONDS_PER_DAY: i64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;
    use proptest::prelude::*;

    fn time(text: &str) -> CivilTime {
        text.parse().expect(text)
    }

    #[test]
    fn times_parse_with_and_without_date_and_offset() {
        let early = time("0:00");
        assert_eq!(
            (early.date, early.second_of_day(), early.offset),
            (None, 0, None)
        );
        let exact = time("23:59:59.25");
        assert_eq!((exact.second_of_day(), exact.nanos), (86_399, 250_000_000));
        assert_eq!(time("23:59:60").second_of_day(), 86_399);
        let local = time(" 2031-05-01 06:00 ");
        assert_eq!(
            (local.date, local.unix_nanos()),
            (Date::new(2031, 5, 1), None)
        );
        for (text, nanos) in [
            ("1970-01-01T00:00:01Z", 1_000_000_000),
            ("1970-01-01t00:00:01z", 1_000_000_000),
            ("2031-05-01T08:00:00.5+02:00", 1_935_381_600_500_000_000),
            ("2031-05-01 08:00:00,5+0200", 1_935_381_600_500_000_000),
            ("2031-05-01 08:00:00.5 +02:00", 1_935_381_600_500_000_000),
            ("2031-05-01T03:00:00.5-03", 1_935_381_600_500_000_000),
            ("1969-12-31T23:59:59Z", -1_000_000_000),
            ("2554-07-21T23:34:33.709551615Z", i128::from(u64::MAX)),
        ] {
            assert_eq!(time(text).unix_nanos(), Some(nanos), "{text}");
        }
    }

    #[test]
    fn malformed_time_is_refused() {
        for text in [
            "",
            "now",
            "12",
            "24:00",
            "1:60",
            "1:5",
            "-1:00",
            "+8:00",
            "x:y",
            "12:00:61",
            "12:00.5",
            "12:00:00.",
            "2031-05-01",
            "2031-05T1:00",
            "31-05-01T06:00",
            "2031-5-1T06:00",
            "2031-05-01T06:00:00+25:00",
            "2031-05-01T06:00+2",
            "2031-05-01T06:00ZZ",
            "2031-05-01 06:00  +02:00",
            "2031-05-01 +02:00",
            "12:00:00.1234567890",
            "é:00",
        ] {
            assert_eq!(
                text.parse::<CivilTime>(),
                Err(ParseCivilTimeError::Form),
                "{text}"
            );
        }
        for text in [
            "2031-02-29T1:00",
            "2026-11-31T00:00",
            "2026-13-01T00:00",
            "2026-00-01T00:00",
            "2026-01-00 00:00Z",
        ] {
            let error = text.parse::<CivilTime>().unwrap_err();
            assert_eq!(error, ParseCivilTimeError::NoSuchDay, "{text}");
            assert!(error.to_string().contains("as in 2031-05-01"), "{error}");
        }
    }

    #[test]
    fn unix_seconds_are_a_number_or_a_time_with_offset() {
        for (text, seconds) in [
            ("0", Some(0)),
            ("1900000000", Some(1_900_000_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("2031-05-01T08:00:00.5+02:00", Some(1_935_381_600)),
            ("2031-05-01 06:00Z", Some(1_935_381_600)),
            ("1969-12-31T00:00:00Z", Some(0)),
            ("18446744073709551616", None),
            ("2031-05-01T06:00:00", None),
            ("06:00Z", None),
            ("2031-02-29T06:00:00Z", None),
            ("-1", None),
            ("+1", None),
            ("30d", None),
            ("", None),
        ] {
            assert_eq!(unix_seconds(text), seconds, "{text}");
        }
    }

    #[test]
    fn unix_days_count_every_day_of_the_calendar() {
        // from the first day that can be written to 1970
        let mut days = -719_528;
        for year in 0..=9999 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(date) = Date::new(year, month, day) {
                        assert_eq!(date.unix_days(), days, "{date:?}");
                        days += 1;
                    }
                }
            }
        }
        // 400 years have 146,097 days
        assert_eq!(days, -719_528 + 25 * 146_097);
    }

    proptest! {
        #[test]
        fn offset_shifts_the_time(second in 0_u32..86_400, minutes in -1439_i32..1440) {
            let (hour, rest) = (second / 3600, second % 3600);
            let clock = format!("2031-05-01T{hour:02}:{:02}:{:02}", rest / 60, rest % 60);
            let sign = if minutes < 0 { '-' } else { '+' };
            let offset = format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60);
            let utc = time(&format!("{clock}Z")).unix_nanos().unwrap();
            let there = time(&format!("{clock}{offset}")).unix_nanos().unwrap();
            prop_assert_eq!(utc - there, i128::from(minutes) * 60 * 1_000_000_000);
        }

        #[test]
        fn arbitrary_text_parses_without_panic(text: String, close in "[0-9]{0,4}-?[0-9]{0,2}-?[0-9]{0,2}[Tt ]?[0-9:.,é]{0,12}[Zz+-]?[0-9:é]{0,5}") {
            for text in [text, close] {
                if let Ok(time) = text.parse::<CivilTime>() {
                    prop_assert!(time.second_of_day() < 86_400);
                }
            }
        }
    }
}
