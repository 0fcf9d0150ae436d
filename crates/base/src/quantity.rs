//! Decimal numbers with units: the part that rates, sizes and durations have in common.
//!
//! [`Rate`](crate::Rate) and [`Size`](crate::Size) parse themselves; [`duration::parse`](crate::duration::parse) parses
//! a [`Duration`](core::time::Duration). All three report [`ParseQuantityError`]. They compute with integers: a
//! fraction is rounded down to a whole bit per second, byte or nanosecond.

use core::fmt;

/// Error for text that is not a valid rate, size or duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseQuantityError {
    quantity: Quantity,
    fault: Fault,
}

/// Physical quantity that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    Rate,
    Size,
    Duration,
}

/// Fault in the text of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The text has no number where one is expected, or one with two decimal points.
    Number,
    /// A number has no unit.
    NoUnit,
    /// The unit belongs to another quantity, or does not exist.
    UnknownUnit,
    /// The number is zero where zero has no meaning.
    Zero,
    /// The value does not fit.
    TooLarge,
    /// The units of a duration are not in descending order, or a unit before the last has a fraction.
    Order,
    /// A duration has years or months, whose length varies.
    YearOrMonth,
}

impl Quantity {
    /// Returns the error for `fault` in a text of this quantity.
    pub(crate) const fn error(self, fault: Fault) -> ParseQuantityError {
        ParseQuantityError {
            quantity: self,
            fault,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Size => "size",
            Self::Duration => "duration",
        }
    }

    const fn examples(self) -> &'static str {
        match self {
            Self::Rate => "900Mb/s, 1.5Gb/s or 40G",
            Self::Size => "450MB, 1.5GiB or 1500B",
            Self::Duration => "250ms, 90s, 2m, 1h30m, 7d or PT2M",
        }
    }

    const fn most(self) -> &'static str {
        match self {
            Self::Rate => "18 Eb/s",
            Self::Size => "16 EiB",
            Self::Duration => "584 years",
        }
    }
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, most) = (self.quantity.name(), self.quantity.most());
        match self.fault {
            Fault::Number => write!(f, "expected a {name}: a number and a unit"),
            Fault::NoUnit => write!(f, "a {name} needs a unit"),
            Fault::UnknownUnit => write!(f, "unknown unit of a {name}"),
            Fault::Zero => write!(f, "a {name} must be above zero"),
            Fault::TooLarge => write!(f, "a {name} must be below {most}"),
            Fault::Order => write!(
                f,
                "larger units come first, each once, and only the last number has a fraction"
            ),
            Fault::YearOrMonth => write!(
                f,
                "years and months differ in length: give the {name} in days"
            ),
        }?;
        write!(f, ", as in {}", self.quantity.examples())
    }
}

impl core::error::Error for ParseQuantityError {}

/// Splits text into its leading digits with decimal point and the text after them, trimmed.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, rest) = text.split_at(end.unwrap_or(text.len()));
    (number, rest.trim())
}

/// Returns `number` times `scale`, rounded down, without floating point. A number has digits and at most one decimal
/// point or comma, with at most 18 digits behind it.
pub(crate) fn decimal(number: &str, scale: u64) -> Result<u64, Fault> {
    let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let is_number = whole
        .bytes()
        .chain(fraction.bytes())
        .all(|octet| octet.is_ascii_digit());
    if !is_number || whole.is_empty() && fraction.is_empty() || fraction.len() > FRACTION_DIGITS_MAX
    {
        return Err(Fault::Number);
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction_or_zero = if fraction.is_empty() { "0" } else { fraction };
    // digits that do not parse are too many
    let whole: u64 = whole.parse().map_err(|_| Fault::TooLarge)?;
    let part: u64 = fraction_or_zero.parse().map_err(|_| Fault::TooLarge)?;
    let part = u128::from(part) * u128::from(scale) / 10_u128.pow(fraction.len() as u32);
    let sum = u128::from(whole) * u128::from(scale) + part;
    u64::try_from(sum).map_err(|_| Fault::TooLarge)
}

const FRACTION_DIGITS_MAX: usize = 18;

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_name_the_fault_and_give_an_example() {
        for (fault, says) in [
            (Fault::NoUnit, "a duration needs a unit, as in 250ms, 90s"),
            (Fault::TooLarge, "a duration must be below 584 years, as in"),
            (Fault::YearOrMonth, "give the duration in days, as in"),
        ] {
            let text = Quantity::Duration.error(fault).to_string();
            assert!(text.contains(says), "{text}");
        }
    }

    proptest! {
        #[test]
        fn decimal_matches_shifted_digits(whole in 0_u64..1 << 40, digits in "[0-9]{0,9}", scale in 1_u64..1 << 20) {
            let shifted: u128 = format!("{whole}{digits}").parse().unwrap();
            let exact = shifted * u128::from(scale) / 10_u128.pow(digits.len() as u32);
            prop_assert_eq!(decimal(&format!("{whole}.{digits}"), scale).map(u128::from), Ok(exact));
        }
    }
}
