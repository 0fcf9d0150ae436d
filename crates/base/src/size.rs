//! Byte counts in human notation.

use core::fmt;
use core::str::FromStr;

use crate::quantity::{Fault, ParseQuantityError, Quantity, decimal, split};

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

impl FromStr for Size {
    type Err = ParseQuantityError;

    /// Parses `2GiB` or `2G` (binary), `450MB` (decimal) or `1500B`. A bare number other than 0 is refused, since its
    /// unit would be a guess.
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        parse(text.trim()).map_err(|fault| Quantity::Size.error(fault))
    }
}

fn parse(text: &str) -> Result<Size, Fault> {
    let (number, unit) = split(text);
    let scale: u64 = match unit {
        _ if number.is_empty() => return Err(Fault::Number),
        "B" => 1,
        "" if number == "0" => 1,
        "" => return Err(Fault::NoUnit),
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" | "m" => 1 << 20,
        "GiB" | "G" | "g" => 1 << 30,
        "TiB" | "T" | "t" => 1 << 40,
        "PiB" | "P" | "p" => 1 << 50,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "PB" => 1_000_000_000_000_000,
        _ => return Err(Fault::UnknownUnit),
    };
    decimal(number, scale).map(Size)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_parse_in_human_notation() {
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("450MB", 450_000_000),
            ("1.5M", 3 << 19),
            ("0", 0),
            ("17 B", 17),
            ("1.5PiB", 3 << 49),
            ("1.5GiB", 3 << 29),
        ] {
            assert_eq!(text.parse::<Size>(), Ok(Size(bytes)), "{text}");
        }
        let cases: [(Fault, &[&str]); 4] = [
            (Fault::NoUnit, &["1500", "00", "."]),
            (Fault::UnknownUnit, &["1Z", "1Mb", "1 giga"]),
            (Fault::Number, &["", "x", "-3", ".B", "1.2.3M"]),
            (Fault::TooLarge, &["999999PB", "18446744073709551616B"]),
        ];
        for (fault, texts) in cases {
            for text in texts {
                let error = Quantity::Size.error(fault);
                assert_eq!(text.parse::<Size>(), Err(error), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn size_is_its_number_times_its_unit(number in 0_u64..16_000, unit in 0_usize..6, binary: bool) {
            let (names, step) = if binary {
                (["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024)
            } else {
                (["B", "kB", "MB", "GB", "TB", "PB"], 1000)
            };
            let mut bytes = number;
            for _ in 0..unit {
                bytes *= step;
            }
            prop_assert_eq!(format!("{number}{}", names[unit]).parse(), Ok(Size(bytes)));
        }

        #[test]
        fn arbitrary_text_parses_without_panic(text: String, close in "[0-9.]{0,25} ?[kMGTP]?[iB]{0,2}") {
            for text in [text, close] {
                if let Err(error) = text.parse::<Size>() {
                    let says = error.to_string().contains("as in 450MB");
                    prop_assert!(says);
                }
            }
        }
    }
}
