//! Bytes as people write them.

use core::fmt;
use core::str::FromStr;

use crate::rate::decimal;

/// A number of bytes that reads and prints with binary prefixes.
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

/// What was wrong with a size that somebody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASize;

impl fmt::Display for NotASize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a size is a number and a unit, as in 450MB, 2GiB or 1500B"
        )
    }
}

impl core::error::Error for NotASize {}

impl FromStr for Size {
    type Err = NotASize;

    /// Reads `2GiB` or `2G` as binary, `450MB` as decimal, `1500B` as bytes. A number alone is refused unless it is zero,
    /// since nobody can tell what was meant.
    fn from_str(text: &str) -> Result<Self, NotASize> {
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
            _ => return Err(NotASize),
        };
        decimal(number, scale).map(Self).ok_or(NotASize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
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
            assert_eq!(text.parse::<Size>(), Err(NotASize), "{text}");
        }
    }
}
