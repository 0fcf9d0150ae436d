//! Text that people and peers write: rates, sizes, durations, times and timetables.

use lighthaul_base::{CivilTime, PortRange, Rate, Size, Timetable, WeekTime, duration};

/// Parses text as each quantity. Refused text has a reason, and accepted text is read the same without the space around
/// it.
pub fn quantity(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    let bare = text.trim();
    match text.parse::<Rate>() {
        Ok(rate) => {
            assert!(rate.as_bps() > 0 && bare.parse() == Ok(rate));
            let shown = rate.to_string().parse::<Rate>();
            assert!(rate == Rate::UNLIMITED || shown.is_ok(), "{rate}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match text.parse::<Size>() {
        Ok(size) => assert!(bare.parse() == Ok(size) && size.to_string().parse::<Size>().is_ok()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match duration::parse(&text) {
        Ok(duration) => {
            assert_eq!(duration::parse(bare), Ok(duration));
            let nanos = format!("{}ns", duration.as_nanos());
            assert_eq!(duration::parse(&nanos), Ok(duration));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match text.parse::<PortRange>() {
        Ok(range) => assert_eq!(range.to_string().parse(), Ok(range)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match text.parse::<CivilTime>() {
        Ok(time) => {
            assert!(time.second_of_day() < DAY && time.nanos < 1_000_000_000);
            assert_eq!(bare.parse(), Ok(time));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match text.parse::<Timetable>() {
        Ok(table) => follow(&table),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Follows a timetable for a week; each change comes when it was announced.
fn follow(table: &Timetable) {
    for day in 0..7 {
        for second in [0, 1, DAY / 2, DAY - 1] {
            let Some(now) = WeekTime::new(day, second) else {
                panic!("a second of the week")
            };
            let Some(change) = table.next_change(now) else {
                continue;
            };
            assert!(change > 0 && change <= 7 * DAY);
            let then = (day * DAY + second + change) % (7 * DAY);
            let then = WeekTime::new(then / DAY, then % DAY);
            assert!(then.is_some_and(|then| table.rate_at(then) != table.rate_at(now)));
        }
    }
}

/// Seconds of a day.
const DAY: u32 = 86_400;
