//! Durations in human notation (`1h30m`) and in ISO 8601 (`PT1H30M`).
//!
//! [`parse`] accepts either notation and returns whole nanoseconds. One rule holds for both: units
//! descend, no unit repeats, and only the last number has a fraction. Years and months are refused,
//! because their length varies. The parser never panics, and names the fault of the text in a
//! [`ParseQuantityError`]. Durations are not written here.

use core::time::Duration;

use crate::quantity::{Fault, ParseQuantityError, Quantity, decimal};

/// Parses a duration such as `90s`, `2m`, `1h30m`, `1.5h`, `250ms` or `2 days`, or `PT2M` and `P1DT12H` as ISO 8601
/// writes them.
///
/// The units are `w`, `d`, `h`, `m` (or `min`), `s`, `ms`, `us` (or `µs`) and `ns`, and the English words from `weeks`
/// to `seconds`. A day has 24 hours. Larger units come first, and only the last number may have a fraction. A bare
/// number is refused, since its unit would be a guess; `0` alone needs none. The longest duration is 2^64 - 1
/// nanoseconds.
pub fn parse(text: &str) -> Result<Duration, ParseQuantityError> {
    let text = text.trim();
    let sum = match text.strip_prefix(['P', 'p']) {
        Some(rest) => iso_8601(rest),
        None if text == "0" => Ok(Sum::default()),
        None => human(text),
    };
    let sum = sum.map_err(|fault| Quantity::Duration.error(fault))?;
    Ok(Duration::from_nanos(sum.nanos))
}

/// Sum of the parts of a duration that have been read.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    nanos: u64,
    /// Nanoseconds of the last unit; zero before the first.
    unit: u64,
    has_fraction: bool,
}

impl Sum {
    /// Adds `number` units of `unit` nanoseconds.
    fn add(&mut self, number: &str, unit: u64) -> Result<(), Fault> {
        let nanos = decimal(number, unit)?;
        let is_first = self.unit == 0;
        if self.has_fraction || !is_first && unit >= self.unit {
            return Err(Fault::Order);
        }
        self.unit = unit;
        self.has_fraction = number.contains(['.', ',']);
        self.nanos = self.nanos.checked_add(nanos).ok_or(Fault::TooLarge)?;
        Ok(())
    }
}

/// Parses `1h30m` and `1 hour 30 minutes`.
fn human(text: &str) -> Result<Sum, Fault> {
    let mut sum = Sum::default();
    let mut rest = text;
    loop {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        if number.is_empty() {
            return Err(Fault::Number);
        }
        let (name, after) = split(after.trim_start(), char::is_alphabetic);
        if name.is_empty() && after.is_empty() {
            return Err(Fault::NoUnit);
        }
        let unit = UNITS.iter().find(|(names, _)| names.contains(&name));
        let (_, unit) = unit.ok_or(Fault::UnknownUnit)?;
        sum.add(number, *unit)?;
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(sum);
        }
    }
}

/// Parses an ISO 8601 duration, from the text after its `P`.
fn iso_8601(text: &str) -> Result<Sum, Fault> {
    let mut sum = Sum::default();
    let (mut rest, mut is_time) = (text, false);
    loop {
        if let Some(time) = rest.strip_prefix(['T', 't']) {
            if is_time {
                return Err(Fault::UnknownUnit);
            }
            (rest, is_time) = (time, true);
        }
        let (number, after) = split(rest, |c| c.is_ascii_digit() || matches!(c, '.' | ','));
        let letter = after
            .chars()
            .next()
            .map(|letter| letter.to_ascii_uppercase());
        let unit = match (is_time, letter) {
            _ if number.is_empty() => return Err(Fault::Number),
            (_, None) => return Err(Fault::NoUnit),
            (false, Some('Y' | 'M')) => return Err(Fault::YearOrMonth),
            (false, Some('W')) => WEEK,
            (false, Some('D')) => DAY,
            (true, Some('H')) => HOUR,
            (true, Some('M')) => MINUTE,
            (true, Some('S')) => SECOND,
            (_, Some(_)) => return Err(Fault::UnknownUnit),
        };
        sum.add(number, unit)?;
        rest = &after[1..];
        if rest.is_empty() {
            return Ok(sum);
        }
    }
}

/// Splits text after its leading characters in `class`.
fn split(text: &str, class: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c: char| !class(c));
    text.split_at(end.unwrap_or(text.len()))
}

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// Names of the units, and their nanoseconds.
const UNITS: [(&[&str], u64); 8] = [
    (&["w", "week", "weeks"], WEEK),
    (&["d", "day", "days"], DAY),
    (&["h", "hour", "hours"], HOUR),
    (&["m", "min", "mins", "minute", "minutes"], MINUTE),
    (&["s", "sec", "secs", "second", "seconds"], SECOND),
    (&["ms"], 1_000_000),
    // the micro sign and the Greek letter look the same
    (&["us", "\u{b5}s", "\u{3bc}s"], 1_000),
    (&["ns"], 1),
];

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_parse_in_human_and_iso_8601_notation() {
        for (text, millis) in [
            ("2m", 120_000),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1 hour 30 minutes", 5_400_000),
            ("1.5h", 5_400_000),
            ("1.5 s", 1500),
            ("1m0.5s", 60_500),
            ("250ms", 250),
            ("250000us", 250),
            ("250000µs", 250),
            ("250000μs", 250),
            (" 7d ", 604_800_000),
            ("2 days", 172_800_000),
            ("1w", 604_800_000),
            ("0", 0),
            ("0s", 0),
            (".5s", 500),
            ("PT2M", 120_000),
            ("pt2h30m", 9_000_000),
            ("P1D", 86_400_000),
            ("P1DT12H", 129_600_000),
            ("P2W", 1_209_600_000),
            ("PT0.25S", 250),
            ("PT0,25S", 250),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        let longest = parse("18446744073709551615ns");
        assert_eq!(longest, Ok(Duration::from_nanos(u64::MAX)));
    }

    #[test]
    fn malformed_duration_is_refused_with_its_fault() {
        let cases: [(Fault, &[&str]); 6] = [
            (Fault::NoUnit, &["30", "1h30", "PT30", "1.5", "00"]),
            (
                Fault::UnknownUnit,
                &[
                    "2x", "2M", "2H", "1y", "1,5s", "1e3s", "P2H", "PT2D", "PT2HT1M",
                ],
            ),
            (
                Fault::Number,
                &[
                    "", "soon", "h", "-1s", "+1s", "1.2.3s", "1h-1m", "P", "PT", "P1DT", "PD",
                    "PTT2H",
                ],
            ),
            (
                Fault::Order,
                &["30m1h", "1h1h", "1.5h30m", "PT1M1H", "PT1.5M1S", "1d1w"],
            ),
            (Fault::YearOrMonth, &["P1Y", "P1M", "P1Y2D"]),
            (
                Fault::TooLarge,
                &[
                    "18446744073709551616ns",
                    "1000000w",
                    "99999999999999999999999d",
                    "P300000000D",
                ],
            ),
        ];
        for (fault, texts) in cases {
            for text in texts {
                let error = Quantity::Duration.error(fault);
                assert_eq!(parse(text), Err(error), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn duration_is_the_sum_of_its_parts(
            counts in prop::collection::vec(0_u64..1000, UNITS.len()),
            used in 1_u32..1 << UNITS.len(),
            space in prop::bool::ANY,
        ) {
            let parts: Vec<(u64, &str, u64)> = (0..UNITS.len())
                .filter(|nth| used & 1 << nth != 0)
                .map(|nth| (counts[nth], *UNITS[nth].0.last().unwrap(), UNITS[nth].1))
                .collect();
            let mut nanos = 0_u64;
            let mut text = String::new();
            for (count, name, unit) in parts {
                // one at a time, as slow as that is
                for _ in 0..count {
                    nanos += unit;
                }
                let space = if space { " " } else { "" };
                for part in [count.to_string().as_str(), space, name, space] {
                    text.push_str(part);
                }
            }
            prop_assert_eq!(parse(&text), Ok(Duration::from_nanos(nanos)), "{}", text);
        }

        #[test]
        fn iso_8601_and_human_notation_agree(days in 0_u32..1000, hours in 0_u32..100, seconds in 0_u32..100, millis in 0_u32..1000) {
            let iso = format!("P{days}DT{hours}H{seconds}.{millis:03}S");
            let human = format!("{days}d{hours}h{seconds}.{millis:03}s");
            prop_assert_eq!(parse(&iso), parse(&human));
            prop_assert!(parse(&iso).is_ok());
        }

        #[test]
        fn arbitrary_text_parses_without_panic(text: String, close in "[Pp]?[0-9.,]{0,21}[TtHhMmSsDdWw µ]{0,3}[0-9]{0,3}[a-zµ]{0,3}") {
            for text in [text, close] {
                if let Err(error) = parse(&text) {
                    let says = error.to_string().contains("as in");
                    prop_assert!(says);
                }
            }
        }
    }
}
