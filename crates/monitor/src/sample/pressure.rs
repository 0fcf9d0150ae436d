//! Pressure stall information, from `/proc/pressure`.
//!
//! The kernel counts the microseconds in which some task waited for a resource. Separately, it counts
//! those in which all tasks that were not idle waited at once. Kernels without PSI, or with `psi=0`, lack the
//! files. See `Documentation/accounting/psi.rst` of Linux.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counter::{fraction, risen};

/// Microseconds of stalls for one resource since the host started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallTimes {
    /// At least one task waited.
    pub some: u64,
    /// All tasks that were not idle waited.
    pub full: u64,
}

/// Fractions of an interval with stalls for one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StallShares {
    /// At least one task waited.
    pub some: f64,
    /// All tasks that were not idle waited.
    pub full: f64,
}

impl StallTimes {
    /// Returns the fractions of the interval from `before` to this time.
    pub fn shares(&self, before: &Self, interval: Duration) -> StallShares {
        let micros = interval.as_secs_f64() * 1e6;
        StallShares {
            some: fraction(risen(before.some, self.some) as f64, micros),
            full: fraction(risen(before.full, self.full) as f64, micros),
        }
    }
}

/// Parses a file of `/proc/pressure`. Returns `None` without a total of its line `some`.
pub fn parse(text: &str) -> Option<StallTimes> {
    let total = |kind: &str| {
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(kind))?;
        let mut words = line.split_ascii_whitespace();
        words
            .find_map(|word| word.strip_prefix("total="))?
            .parse()
            .ok()
    };
    Some(StallTimes {
        some: total("some ")?,
        // older kernels have none for the processors
        full: total("full ").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn totals_of_both_lines_are_parsed() {
        let text = "some avg10=97.91 avg60=96.46 avg300=91.60 total=18179\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n";
        let both = StallTimes {
            some: 18179,
            full: 12,
        };
        assert_eq!(parse(text), Some(both));
        let some = "some avg10=0.00 total=7";
        assert_eq!(parse(some), Some(StallTimes { some: 7, full: 0 }));
        for text in ["", "full total=1", "some avg10=1.00", "some total=-1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn shares_are_fractions_of_the_interval() {
        let before = StallTimes { some: 5, full: 5 };
        let after = StallTimes {
            some: 500_005,
            full: 9_000_000,
        };
        let shares = after.shares(&before, Duration::from_secs(1));
        assert!((shares.some - 0.5).abs() < 1e-9 && (shares.full - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text: String, line in "some [a-z0-9=. ]{0,40}") {
            parse(&text);
            parse(&line);
        }
    }
}
