//! Data rates in bits per second.
//!
//! A [`Rate`] is never zero, so division by it cannot fail. It converts bytes to time and back:
//! [`Rate::time_for`] rounds up and [`Rate::bytes_in`] rounds down, so a sender stays within the
//! rate. Results saturate and never overflow. Prefixes are decimal (1 kb/s is 1000 bits per
//! second), and text must have a unit. `Display` rounds to three decimals and is for people, not
//! for programs.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::quantity::{Fault, ParseQuantityError, Quantity, decimal, split};

/// Rate in whole bits per second; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Highest rate. A pacer with this rate does not pace.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// Returns a rate of `bits` per second, or `None` for zero.
    pub const fn from_bps(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// Returns a rate of `mbps` million bits per second. Zero becomes one bit per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        let bits = mbps.saturating_mul(1_000_000);
        Self(if bits == 0 { 1 } else { bits })
    }

    /// Returns the rate in bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Returns the rate in million bits per second, for display.
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the time that `bytes` take at this rate, rounded up to a nanosecond.
    pub fn time_for(self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the whole bytes that pass in `time`.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bytes = time.as_nanos().saturating_mul(u128::from(self.0)) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns the rate of `bytes` in `time`, rounded down, but at least one bit per second.
    pub fn of(bytes: u64, time: Duration) -> Self {
        let bits = u128::from(bytes) * 8_000_000_000 / time.as_nanos().max(1);
        Self(u64::try_from(bits).unwrap_or(u64::MAX).max(1))
    }

    /// Returns this rate times `numerator / denominator`, rounded down, but at least one bit per second.
    #[must_use]
    pub fn scaled(self, numerator: u32, denominator: u32) -> Self {
        let bits = u128::from(self.0) * u128::from(numerator) / u128::from(denominator.max(1));
        Self(u64::try_from(bits).unwrap_or(u64::MAX).max(1))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::UNLIMITED {
            return write!(f, "unlimited");
        }
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "Gb/s"),
            1_000_000.. => (1_000_000, "Mb/s"),
            1_000.. => (1_000, "kb/s"),
            _ => return write!(f, "{} b/s", self.0),
        };
        write!(f, "{:.3} {name}", self.0 as f64 / f64::from(unit))
    }
}

impl FromStr for Rate {
    type Err = ParseQuantityError;

    /// Parses `900Mb/s`, `900Mbit`, `1.5G` or `1000bit` in bits per second, and `125MB/s` or `119MiB/s` in bytes per
    /// second. A bare number is refused, since its unit would be a guess.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        parse(text.trim()).map_err(|fault| Quantity::Rate.error(fault))
    }
}

fn parse(text: &str) -> Result<Rate, Fault> {
    let (number, unit) = split(text);
    let tails = ["bit/s", "bps", "b/s", "bit"];
    let bits = tails.iter().find_map(|tail| unit.strip_suffix(tail));
    let prefix = bits.or_else(|| unit.strip_suffix("B/s"));
    let scale: u64 = match prefix.unwrap_or(unit) {
        _ if number.is_empty() => return Err(Fault::Number),
        "" if prefix.is_some() => 1,
        "" => return Err(Fault::NoUnit),
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        "t" | "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err(Fault::UnknownUnit),
    };
    let is_in_bytes = prefix.is_some() && bits.is_none();
    let scale = if is_in_bytes { scale * 8 } else { scale };
    Rate::from_bps(decimal(number, scale)?).ok_or(Fault::Zero)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_parse_in_human_notation() {
        for (text, bits) in [
            ("900Mb/s", 900_000_000),
            ("1.5Gb/s", 1_500_000_000),
            ("40G", 40_000_000_000),
            ("64 kbit", 64_000),
            ("1000 b/s", 1000),
            ("5bit", 5),
            ("0.5M", 500_000),
            ("125MB/s", 1_000_000_000),
            ("1.5 kB/s", 12_000),
            ("5B/s", 40),
            ("1MiB/s", 8 << 20),
            ("2Gib/s", 2 << 30),
        ] {
            assert_eq!(text.parse::<Rate>(), Ok(Rate(bits)), "{text}");
        }
        let cases: [(Fault, &[&str]); 5] = [
            (Fault::NoUnit, &["0", "900", "1.5", "."]),
            (
                Fault::UnknownUnit,
                &["1Q", "900MB", "1G/s", "1Gb/h", "1kiB/s"],
            ),
            (Fault::Number, &["", "fast", "-1M", ".M", "1.2.3M"]),
            (Fault::Zero, &["0G", "0.1b/s"]),
            (
                Fault::TooLarge,
                &["99999999999T", "99999999999999999999999b/s"],
            ),
        ];
        for (fault, texts) in cases {
            for text in texts {
                let error = Quantity::Rate.error(fault);
                assert_eq!(text.parse::<Rate>(), Err(error), "{text}");
            }
        }
    }

    #[test]
    fn time_for_and_bytes_in_are_inverse() {
        let rate = Rate::from_mbps(1000);
        assert_eq!(rate.time_for(125_000_000), Duration::from_secs(1));
        assert_eq!(rate.bytes_in(Duration::from_millis(1)), 125_000);
        assert_eq!(Rate::of(125_000, Duration::from_millis(1)), rate);
        assert_eq!(Rate::UNLIMITED.time_for(1 << 30), Duration::from_nanos(1));
    }

    proptest! {
        #[test]
        fn rate_is_its_number_times_its_unit(number in 1_u64..1_000_000, unit in 0_usize..5, tail in 0_usize..4) {
            let prefix = ["", "k", "M", "G", "T"][unit];
            let tail = ["b/s", "bit", "bit/s", "bps"][tail];
            let mut bits = number;
            for _ in 0..unit {
                bits *= 1000;
            }
            prop_assert_eq!(format!("{number}{prefix}{tail}").parse(), Ok(Rate(bits)));
        }

        #[test]
        fn arbitrary_text_parses_without_panic(text: String, close in "[0-9.]{0,25} ?[kMGTb]?[b/its]{0,5}") {
            for text in [text, close] {
                if let Err(error) = text.parse::<Rate>() {
                    let says = error.to_string().contains("as in 900Mb/s");
                    prop_assert!(says);
                }
            }
        }
    }
}
