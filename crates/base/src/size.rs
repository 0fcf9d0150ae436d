//! Byte counts in human notation.

use core::fmt;
use core::str::FromStr;

use crate::rate::decimal;

/// Number of bytes. It prints with binary prefixes, as in `1.50 GiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0x100_0000_0000.. => (1_u64 << 40, "TiB"),
            0x4000_0000.. => (1 << 30, "GiB"),
            0x10_0000.. => (1 << 20, "MiB"),
            0x400.. => (1 << 10, "KiB"),
            _ => return write!(f, "{} B", self.0),
        };
        write!(f, "{:.2} {name}", self.0 as f64 / unit as f64)
    }
}

/// Error for text that is not a valid size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseSizeError;

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected a size: a number and a unit, as in 450MB, 2GiB or 1500B"
        )
    }
}

impl core::error::Error for ParseSizeError {}

impl FromStr for Size {
    type Err = ParseSizeError;

    /// Parses `2GiB` or `2G` (binary), `450MB` (decimal) or `1500B`. A bare number other than 0 is refused, since its
    /// unit would be a guess.
    fn from_str(text: &str) -> Result<Self, ParseSizeError> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let scale: u64 = match unit.trim() {
            "B" => 1,
            "" if number == "0" => 1,
            "KiB" | "K" | "k" => 1 << 10,
            "MiB" | "M" | "m" => 1 << 20,
            "GiB" | "G" | "g" => 1 << 30,
            "TiB" | "T" | "t" => 1 << 40,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => return Err(ParseSizeError),
        };
        decimal(number, scale).map(Self).ok_or(ParseSizeError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_in_human_notation() {
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("450MB", 450_000_000),
            ("1.5M", 3 << 19),
            ("0", 0),
            ("17 B", 17),
        ] {
            assert_eq!(text.parse::<Size>(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "x", "1Z", "-3", ".", "1500", "00"] {
            assert_eq!(text.parse::<Size>(), Err(ParseSizeError), "{text}");
        }
    }
}
