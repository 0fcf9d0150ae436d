//! Rate limits by day of the week and time of day, in the notation of rclone's `--bwlimit`.
//!
//! A [`Timetable`] gives the limit at each [`WeekTime`], a second of the week in local time. The
//! caller passes the time, because this crate has no clock. As in rclone, `10M` is bytes per second
//! and `10Mbit` is bits per second. The steps of `Mon-08:00,100Mbit Fri-18:00,off` wrap around:
//!
//! ```text
//! Mon 00:00   Mon 08:00             Fri 18:00      Sun 24:00
//! |--- off ---|------ 100 Mb/s ------|----- off -----|
//! ```

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::civil::CivilTime;
use crate::rate::Rate;
use crate::size::Size;

/// Weekly schedule of rate limits. Each step holds until the next one, and the last step of the week until the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    /// At least one step, sorted by time, with distinct times. `None` is no limit.
    steps: Vec<(WeekTime, Option<Rate>)>,
}

/// Second of the week in local time. Zero is Monday, 00:00:00.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeekTime(u32);

impl Timetable {
    /// Returns the rate limit at `time`, or `None` if there is no limit.
    pub fn rate_at(&self, time: WeekTime) -> Option<Rate> {
        let before = self.steps.partition_point(|(from, _)| *from <= time);
        // before the first step of the week, the last step of the previous week applies
        let last = before.checked_sub(1).unwrap_or(self.steps.len() - 1);
        self.steps[last].1
    }

    /// Returns the seconds until the limit changes, or `None` if it never does.
    pub fn next_change(&self, time: WeekTime) -> Option<u32> {
        let now = self.rate_at(time);
        let ahead = |from: WeekTime| (WEEK + from.0 - time.0) % WEEK;
        let others = self.steps.iter().filter(|(_, rate)| *rate != now);
        others.map(|(from, _)| ahead(*from)).min()
    }
}

impl WeekTime {
    /// Returns second `second` of day `day` (0 is Monday), or `None` if either is out of range.
    pub const fn new(day: u32, second: u32) -> Option<Self> {
        if day < 7 && second < DAY {
            Some(Self(day * DAY + second))
        } else {
            None
        }
    }
}

impl FromStr for Timetable {
    type Err = ParseTimetableError;

    /// Parses `10M`, `off`, `08:00,1G 18:00,off` or `Mon-08:00,100Mbit Fri-18:00,off`. A time without a day applies
    /// to every day. If two steps have the same time, the later one in the text wins.
    fn from_str(text: &str) -> Result<Self, ParseTimetableError> {
        if let Ok(rate) = limit(text.trim()) {
            let steps = vec![(WeekTime(0), rate)];
            return Ok(Self { steps });
        }
        let mut steps: Vec<(WeekTime, Option<Rate>)> = Vec::new();
        for word in text.split_whitespace() {
            let (when, rate) = word.split_once(',').ok_or(ParseTimetableError)?;
            let rate = limit(rate)?;
            let (days, time) = match when.split_once('-') {
                Some((day, time)) => {
                    let day = weekday(day)?;
                    (day..day + 1, time)
                }
                None => (0..7, when),
            };
            let second = time_of_day(time)?;
            for day in days {
                let from = WeekTime::new(day, second).ok_or(ParseTimetableError)?;
                match steps.binary_search_by_key(&from, |(from, _)| *from) {
                    Ok(at) => steps[at].1 = rate,
                    Err(at) => steps.insert(at, (from, rate)),
                }
            }
        }
        if steps.is_empty() {
            return Err(ParseTimetableError);
        }
        Ok(Self { steps })
    }
}

/// Error for text that is not a valid rate limit or timetable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseTimetableError;

impl fmt::Display for ParseTimetableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected a rate limit with a unit, as in 100Mb/s, 12MB/s or 10M (bytes per second), or off; \
             a timetable is written as in 08:00,1G Sat-18:00,off"
        )
    }
}

impl core::error::Error for ParseTimetableError {}

/// Parses one limit: a rate with a full unit (`100Mb/s`, `12MB/s`), or bytes per second as rsync and rclone write them
/// (`10M`). A bare number is refused, since its unit would be a guess. `off` and `0` mean no limit (`None`).
fn limit(text: &str) -> Result<Option<Rate>, ParseTimetableError> {
    if text == "off" {
        return Ok(None);
    }
    if ["b/s", "B/s", "bit", "bit/s", "bps"]
        .iter()
        .any(|tail| text.ends_with(tail))
    {
        return text.parse().map(Some).map_err(|_| ParseTimetableError);
    }
    let size: Size = text
        .strip_suffix("/s")
        .unwrap_or(text)
        .parse()
        .map_err(|_| ParseTimetableError)?;
    let bits = size.0.checked_mul(8);
    bits.map(Rate::from_bps).ok_or(ParseTimetableError)
}

fn weekday(name: &str) -> Result<u32, ParseTimetableError> {
    let full = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let is_it = |day: &&str| name.eq_ignore_ascii_case(day) || name.eq_ignore_ascii_case(&day[..3]);
    let day = full.iter().position(is_it);
    day.map(|day| day as u32).ok_or(ParseTimetableError)
}

fn time_of_day(text: &str) -> Result<u32, ParseTimetableError> {
    let time: CivilTime = text.parse().map_err(|_| ParseTimetableError)?;
    let is_bare = time.date.is_none() && time.offset.is_none() && time.nanos == 0;
    is_bare
        .then(|| time.second_of_day())
        .ok_or(ParseTimetableError)
}

const DAY: u32 = 86_400;
const WEEK: u32 = 7 * DAY;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use proptest::prelude::*;

    fn table(text: &str) -> Timetable {
        text.parse().unwrap()
    }

    fn at(day: u32, hour: u32, minute: u32) -> WeekTime {
        WeekTime::new(day, hour * 3600 + minute * 60).unwrap()
    }

    fn bytes(bytes: u64) -> Option<Rate> {
        Rate::from_bps(bytes * 8)
    }

    #[test]
    fn single_limit_applies_at_all_times() {
        for (text, rate) in [
            ("10M", bytes(10 << 20)),
            ("10MB", bytes(10_000_000)),
            ("1.5G", bytes(3 << 29)),
            ("10MiB/s", bytes(10 << 20)),
            ("512K", bytes(512 << 10)),
            ("100B", bytes(100)),
            ("100Mbit", Some(Rate::from_mbps(100))),
            ("100Mbit/s", Some(Rate::from_mbps(100))),
            ("100Mb/s", Some(Rate::from_mbps(100))),
            ("12MB/s", bytes(12_000_000)),
            ("12MiB/s", bytes(12 << 20)),
            ("off", None),
            ("0", None),
        ] {
            let table = table(text);
            assert_eq!(table.rate_at(at(3, 4, 5)), rate, "{text}");
            assert_eq!(table.next_change(at(3, 4, 5)), None, "{text}");
        }
    }

    #[test]
    fn timetable_steps_hold_until_next_step_and_wrap_at_week_end() {
        let daily = table("08:00,1G 18:00,off");
        assert_eq!(daily.rate_at(at(0, 7, 59)), None);
        assert_eq!(daily.rate_at(at(0, 8, 0)), bytes(1 << 30));
        assert_eq!(daily.rate_at(at(6, 17, 59)), bytes(1 << 30));
        assert_eq!(daily.rate_at(at(6, 18, 0)), None);
        assert_eq!(daily.next_change(at(6, 18, 0)), Some(14 * 3600));
        assert_eq!(daily.next_change(at(2, 8, 0)), Some(10 * 3600));
        let weekly = table("Mon-08:00,10Mbit friday-18:00,off");
        assert_eq!(weekly.rate_at(at(0, 0, 0)), None);
        assert_eq!(weekly.rate_at(at(2, 0, 0)), Rate::from_bps(10_000_000));
        assert_eq!(weekly.next_change(at(5, 8, 0)), Some(2 * 86_400));
    }

    #[test]
    fn malformed_timetable_is_refused() {
        for text in [
            "",
            "fast",
            "10",
            "1.5/s",
            "08:00,10 18:00,off",
            "10Q",
            "-1M",
            "8,1M",
            "24:00,1M",
            "08:60,1M",
            "+8:00,1M",
            "08:00",
            "08:00,",
            "Foo-08:00,1M",
            "08:00,1M 9",
            "10M:1M",
            "Mon-,1M",
            "99999999999G",
            "0bit",
            "é-08:00,1M",
        ] {
            assert_eq!(
                text.parse::<Timetable>(),
                Err(ParseTimetableError),
                "{text}"
            );
        }
    }

    /// Returns the limit of every minute of a week, found by stepping through two weeks minute by minute.
    fn minutes(steps: &[(Option<u32>, u32, u64)]) -> Vec<Option<Rate>> {
        let week = 7 * 24 * 60;
        let mut set: Vec<Option<Option<Rate>>> = vec![None; week];
        for (day, minute, rate) in steps {
            for each in 0..7 {
                if day.is_none_or(|day| day == each) {
                    set[(each * 1440 + minute) as usize] = Some(bytes(*rate));
                }
            }
        }
        let mut held = vec![None; week];
        let mut now = None;
        for minute in (0..week).chain(0..week) {
            now = set[minute].unwrap_or(now);
            held[minute] = now;
        }
        held
    }

    proptest! {
        #[test]
        fn timetable_matches_minute_by_minute_model(
            steps in prop::collection::vec((prop::option::of(0_u32..7), 0_u32..1440, 0_u64..4), 1..6),
            now in 0_u32..7 * 1440,
        ) {
            let names = ["Mon-", "Tue-", "Wed-", "Thu-", "Fri-", "Sat-", "Sun-"];
            let words: Vec<String> = steps.iter().map(|(day, minute, rate)| {
                let day = day.map_or("", |day| names[day as usize]);
                let rate = if *rate == 0 { "off".into() } else { format!("{rate}B") };
                format!("{day}{:02}:{:02},{rate}", minute / 60, minute % 60)
            }).collect();
            let table = table(&words.join(" "));
            let minutes = minutes(&steps);
            let time = WeekTime::new(now / 1440, now % 1440 * 60).unwrap();
            prop_assert_eq!(table.rate_at(time), minutes[now as usize]);
            let later = (1..=7 * 1440).find(|ahead| {
                minutes[(now + ahead) as usize % minutes.len()] != minutes[now as usize]
            });
            prop_assert_eq!(table.next_change(time), later.map(|ahead| ahead * 60));
        }

        #[test]
        fn arbitrary_text_parses_without_panic(text: String) {
            if let Ok(table) = text.parse::<Timetable>() {
                let time = at(1, 2, 3);
                prop_assert!(table.next_change(time).is_none_or(|seconds| seconds <= WEEK));
            }
        }
    }
}
