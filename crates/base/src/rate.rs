//! Data rates in bits per second.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

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

/// Error for text that is not a valid rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseRateError;

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected a rate: a number above zero and a unit, as in 900Mb/s, 1.5Gb/s or 40G"
        )
    }
}

impl core::error::Error for ParseRateError {}

impl FromStr for Rate {
    type Err = ParseRateError;

    /// Parses `900Mb/s`, `900Mbit`, `1.5G` or `1000bit`: bits per second with decimal prefixes. A bare number is
    /// refused, since its unit would be a guess.
    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim();
        let tails = ["bit/s", "bps", "b/s", "bit"];
        let prefix = tails.iter().find_map(|tail| unit.strip_suffix(tail));
        let scale: u64 = match prefix.unwrap_or(unit) {
            "" if prefix.is_some() => 1,
            "k" | "K" => 1_000,
            "m" | "M" => 1_000_000,
            "g" | "G" => 1_000_000_000,
            "t" | "T" => 1_000_000_000_000,
            _ => return Err(ParseRateError),
        };
        decimal(number, scale)
            .and_then(Self::from_bps)
            .ok_or(ParseRateError)
    }
}

/// Returns `number` times `scale`, rounded down, without floating point. Returns `None` for text that is not a
/// decimal number, for more than 18 fractional digits, and on overflow.
pub(crate) fn decimal(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let part: u64 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let part = u128::from(part) * u128::from(scale) / 10_u128.pow(fraction.len() as u32);
    whole
        .checked_mul(scale)?
        .checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert_eq!(text.parse::<Rate>(), Ok(Rate(bits)), "{text}");
        }
        for text in [
            "",
            "0",
            "900",
            "0G",
            "fast",
            "-1M",
            "1Q",
            ".",
            "1.2.3M",
            "99999999999T",
        ] {
            assert_eq!(text.parse::<Rate>(), Err(ParseRateError), "{text}");
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
}
