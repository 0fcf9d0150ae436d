//! Text form of a TRC vector: `0s-2s 400Mb/s, 2s-5s 900Mb/s`.
//!
//! [`Trc`] is written and read here, and [`TrcError`] gets its messages. Commas or line ends
//! separate steps, and `#` begins a comment. `Display` uses the largest unit in which a number is
//! whole, so the text reads back as the same vector. [`parse_time`] and [`parse_step`] serve file
//! formats that have a key for each field. [`Trc::new`] checks the order and the bounds of steps.

use core::fmt;
use core::str::FromStr;

use super::{RATE_MAX, RATE_MIN, STEPS_MAX, Step, Trc, TrcError};
use crate::duration;
use crate::time::Instant;

impl fmt::Display for Trc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, step) in self.steps().iter().enumerate() {
            let comma = if nth == 0 { "" } else { ", " };
            let (from, from_unit) = whole(step.from.as_nanos(), &TIMES);
            let (till, till_unit) = whole(step.till.as_nanos(), &TIMES);
            let (rate, unit) = whole(step.rate.as_bps(), &RATES);
            write!(f, "{comma}{from}{from_unit}-{till}{till_unit} {rate}{unit}")?;
        }
        Ok(())
    }
}

impl FromStr for Trc {
    type Err = TrcError;

    fn from_str(text: &str) -> Result<Self, TrcError> {
        let lines = text.lines().map(|line| line.split('#').next());
        let words = lines.flatten().flat_map(|line| line.split(','));
        let words = words.map(str::trim).filter(|word| !word.is_empty());
        let steps = (1..).zip(words).map(|(nth, word)| {
            if nth > STEPS_MAX {
                return Err(TrcError::TooMany);
            }
            step(nth, word)
        });
        Self::new(steps.collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for TrcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a TRC vector has at least one step, as in {EXAMPLE}"),
            Self::TooMany => write!(f, "a TRC vector has at most {STEPS_MAX} steps"),
            Self::Malformed(nth) => {
                write!(f, "cannot parse step {nth}: write steps as in {EXAMPLE}")
            }
            Self::EndBeforeStart(nth) => write!(
                f,
                "step {nth} does not end after it begins: give the earlier time first"
            ),
            Self::OutOfOrder(nth) => write!(
                f,
                "step {nth} begins before step {}: put the steps in order of time",
                nth - 1
            ),
            Self::Overlap(nth) => {
                write!(
                    f,
                    "step {nth} begins before step {} ends: steps must not overlap",
                    nth - 1
                )
            }
            Self::EndTooLate(nth) => write!(
                f,
                "step {nth} ends more than a hundred years after the start: check its unit"
            ),
            Self::ZeroRate(nth) => write!(
                f,
                "step {nth} has a rate of zero: omit times without capacity"
            ),
            Self::RateOutOfRange(nth, rate) => {
                write!(
                    f,
                    "step {nth} has a rate of {rate}, outside {RATE_MIN} to {RATE_MAX}: check its unit"
                )
            }
            Self::Past => write!(
                f,
                "all steps of the TRC vector lie in the past: reserve a circuit in the future"
            ),
        }
    }
}

/// Parses a time since the start of the vector, as in `0s`, `1.5s`, `250ms`, `1h30m` or `PT2H`.
pub fn parse_time(text: &str) -> Option<Instant> {
    let time = duration::parse(text).ok()?;
    Some(Instant::ZERO + time)
}

/// Parses step number `nth`, as in `2s-5s 900Mb/s`.
fn step(nth: usize, word: &str) -> Result<Step, TrcError> {
    let wrong = || TrcError::Malformed(nth);
    let (from, rest) = word.split_once('-').ok_or_else(wrong)?;
    let (till, rate) = rest
        .trim()
        .split_once(char::is_whitespace)
        .ok_or_else(wrong)?;
    parse_step(nth, from, till, rate)
}

/// Returns step number `nth` from its three fields in text form, for file formats that have a key for each field.
pub fn parse_step(nth: usize, from: &str, till: &str, rate: &str) -> Result<Step, TrcError> {
    let wrong = || TrcError::Malformed(nth);
    let number = rate.trim().trim_end_matches(|c: char| !c.is_ascii_digit());
    let is_zero = number.bytes().all(|c| matches!(c, b'0' | b'.'));
    if is_zero && !number.is_empty() {
        return Err(TrcError::ZeroRate(nth));
    }
    Ok(Step {
        from: parse_time(from).ok_or_else(wrong)?,
        till: parse_time(till).ok_or_else(wrong)?,
        rate: rate.parse().map_err(|_| wrong())?,
    })
}

/// Returns `number` as an integer multiple of the largest possible unit. Zero is zero seconds.
fn whole(number: u64, units: &[(u64, &'static str)]) -> (u64, &'static str) {
    if number == 0 {
        return (0, "s");
    }
    let unit = units
        .iter()
        .find(|(scale, _)| number.is_multiple_of(*scale));
    unit.map_or((number, ""), |(scale, name)| (number / scale, name))
}

const EXAMPLE: &str = "0s-2s 400Mb/s, 2s-5s 900Mb/s";

/// Nanoseconds of each unit, in descending order.
const TIMES: [(u64, &str); 6] = [
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];
const RATES: [(u64, &str); 4] = [
    (1_000_000_000, "Gb/s"),
    (1_000_000, "Mb/s"),
    (1_000, "kb/s"),
    (1, "b/s"),
];

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;
    use core::time::Duration;

    use super::super::vector::tests::{step, ticks};
    use super::*;
    use crate::rate::Rate;
    use proptest::prelude::*;

    #[test]
    fn vectors_parse_in_human_notation() {
        let plain: Trc = "0s-2s 400Mb/s, 2s-5s 900Mb/s".parse().unwrap();
        let second = 1_000_000_000;
        let steps = [
            step(0, 2 * second, 400_000_000),
            step(2 * second, 5 * second, 900_000_000),
        ];
        assert_eq!(plain.steps(), steps);
        assert_eq!(plain.to_string(), "0s-2s 400Mb/s, 2s-5s 900Mb/s");
        let lines = "# of tonight\n 0 - 2000ms  0.4 Gb/s # slow\n\n2s-5s 900Mbit\n";
        assert_eq!(lines.parse(), Ok(plain));
        let long: Trc = "1.5h-100m 1G, 101min-2h 40G".parse().unwrap();
        assert_eq!(long.to_string(), "90m-100m 1Gb/s, 101m-2h 40Gb/s");
    }

    #[test]
    fn malformed_vector_is_refused_and_names_the_step() {
        for (text, error, says) in [
            ("", TrcError::Empty, "at least one"),
            ("# nothing", TrcError::Empty, "at least one"),
            ("soon", TrcError::Malformed(1), "step 1"),
            ("0s-1s 1G, 1s-2s", TrcError::Malformed(2), "step 2"),
            ("0s-1s 1G, 1-2 1G", TrcError::Malformed(2), "step 2"),
            ("0s-1s 1G, -1s-2s 1G", TrcError::Malformed(2), "step 2"),
            ("0s-99999999999999h 1G", TrcError::Malformed(1), "step 1"),
            ("0s-1s fast", TrcError::Malformed(1), "step 1"),
            ("0s-1s 0Mb/s", TrcError::ZeroRate(1), "zero"),
            ("0s-1s 1G, 1s-2s 0", TrcError::ZeroRate(2), "step 2"),
            ("2s-1s 1G", TrcError::EndBeforeStart(1), "step 1"),
            ("1s-1s 1G", TrcError::EndBeforeStart(1), "step 1"),
            ("1s-2s 1G, 0s-1s 1G", TrcError::OutOfOrder(2), "step 1"),
            ("1s-3s 1G, 2s-4s 1G", TrcError::Overlap(2), "overlap"),
            ("0s-1000000h 1G", TrcError::EndTooLate(1), "hundred years"),
            ("0s-1s 40", TrcError::Malformed(1), "step 1"),
            (
                "0s-1s 40b/s",
                TrcError::RateOutOfRange(1, Rate::from_bps(40).unwrap()),
                "unit",
            ),
            (
                "0s-1s 2000T",
                TrcError::RateOutOfRange(1, Rate::from_mbps(2_000_000_000)),
                "unit",
            ),
        ] {
            let result = text.parse::<Trc>();
            assert_eq!(result, Err(error), "{text}");
            assert!(error.to_string().contains(says), "{error}");
        }
        let many = (0..=STEPS_MAX as u64).map(|nth| step(nth, nth + 1, 1000 + nth));
        assert_eq!(Trc::new(many.collect()), Err(TrcError::TooMany));
        let many: Vec<String> = (0..=STEPS_MAX)
            .map(|nth| format!("{nth}s-{}s 1G", nth + 1))
            .collect();
        assert_eq!(many.join(",").parse::<Trc>(), Err(TrcError::TooMany));
    }

    proptest! {
        #[test]
        fn vector_text_round_trips((trc, _) in ticks(), by in 0_u64..1 << 60) {
            let trc = trc.shifted(Duration::from_nanos(by)).unwrap();
            prop_assert_eq!(trc.to_string().parse(), Ok(trc));
        }

        #[test]
        fn arbitrary_text_parses_without_panic(text: String) {
            if let Err(error) = text.parse::<Trc>() {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
