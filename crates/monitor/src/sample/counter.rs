//! Differences of counters.
//!
//! A counter of the kernel only rises, but some wrap after 32 bits, and a device that is created
//! again starts at zero. [`risen`] and [`risen_32`] handle both. Rates and fractions are rounded,
//! so that their JSON is short.

use std::time::Duration;

/// Devices, processors and tasks that a sample has at most.
pub const ITEMS_MAX: usize = 4096;

/// Bytes of a name that a sample has at most. The kernel's names are shorter.
pub const NAME_MAX: usize = 64;

/// Returns the rise of a 64-bit counter. A lower value means that it started again at zero.
pub const fn risen(before: u64, after: u64) -> u64 {
    match after.checked_sub(before) {
        Some(rise) => rise,
        None => after,
    }
}

/// Returns the rise of a counter that wraps after 32 bits, or of a wider counter.
pub const fn risen_32(before: u64, after: u64) -> u64 {
    if after < before && before <= u32::MAX as u64 {
        return after + (1 << 32) - before;
    }
    risen(before, after)
}

/// Returns the events per second, rounded to a tenth.
pub fn per_second(events: u64, interval: Duration) -> f64 {
    let seconds = interval.as_secs_f64();
    if seconds > 0.0 {
        (events as f64 / seconds * 10.0).round() / 10.0
    } else {
        0.0
    }
}

/// Returns `part` of `whole` between 0 and 1, rounded to four digits. A part of nothing is 0.
pub fn fraction(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        ((part / whole).clamp(0.0, 1.0) * 1e4).round() / 1e4
    } else {
        0.0
    }
}

/// Returns the numbers at the beginning of a line, up to the first word that is not a number.
pub(crate) fn numbers(line: &str) -> Vec<u64> {
    let words = line.split_ascii_whitespace().take(FIELDS_MAX);
    words.map_while(|word| word.parse().ok()).collect()
}

/// Numbers of a line that are read; the kernel's lines have fewer.
const FIELDS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counters_wrap_or_start_again() {
        assert_eq!(risen(5, 9), 4);
        assert_eq!(risen(9, 5), 5);
        assert_eq!(risen(u64::MAX, 0), 0);
        assert_eq!(risen_32(5, 9), 4);
        assert_eq!(risen_32(u64::from(u32::MAX), 3), 4);
        assert_eq!(risen_32(1 << 40, 3), 3, "wider than 32 bits");
    }

    #[test]
    fn rates_and_fractions_are_rounded_and_bounded() {
        assert!((per_second(10, Duration::from_secs(3)) - 3.3).abs() < 1e-9);
        assert!(per_second(10, Duration::ZERO).abs() < 1e-9);
        assert!((fraction(1.0, 3.0) - 0.3333).abs() < 1e-9);
        assert!((fraction(4.0, 3.0) - 1.0).abs() < 1e-9);
        assert!(fraction(1.0, 0.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_end_at_the_first_other_word() {
        assert_eq!(numbers(" 1  22 x 3"), [1, 22]);
        assert!(numbers("99999999999999999999").is_empty());
    }

    proptest! {
        #[test]
        fn counter_difference_never_overflows(before: u64, after: u64) {
            prop_assert!(risen(before, after) <= after);
            risen_32(before, after);
        }
    }
}
