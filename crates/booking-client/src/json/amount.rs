//! Quantities that programs write as numbers and people write with units.
//!
//! In JSON, [`Bytes`] and [`Bps`] are read from a number or from text, and written as a number.
//! [`IsoDuration`] is read from seconds or from text, and written as text in ISO 8601. In
//! configuration files, [`WithUnit`] refuses a bare number. Units are bytes, bits per second and
//! seconds. Zero is valid for all of them; [`Bps::rate`] returns `None` for it.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use lighthaul_base::quantity::ParseQuantityError;
use lighthaul_base::{Rate, Size, duration};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Size in bytes: a number, or text as in `1.2TB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Rate in bits a second: a number, or text as in `900Mb/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bps(pub u64);

/// Length of time: a number of seconds, or text with units, as in `PT2H` or `2h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IsoDuration(pub Duration);

impl Bps {
    /// Returns the rate, or `None` if it is zero.
    pub const fn rate(self) -> Option<Rate> {
        Rate::from_bps(self.0)
    }
}

impl From<Rate> for Bps {
    fn from(rate: Rate) -> Self {
        Self(rate.as_bps())
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        text.parse().map(|size: Size| Self(size.0))
    }
}

impl FromStr for Bps {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        text.parse().map(|rate: Rate| rate.into())
    }
}

impl FromStr for IsoDuration {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        duration::parse(text).map(Self)
    }
}

impl fmt::Display for IsoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = SignedDuration::try_from(self.0).unwrap_or(SignedDuration::MAX);
        write!(f, "{time:#}")
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Serialize for Bps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Serialize for IsoDuration {
    /// Writes ISO 8601.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = SignedDuration::try_from(self.0).unwrap_or(SignedDuration::MAX);
        serializer.collect_str(&time)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, Self)
    }
}

impl<'de> Deserialize<'de> for Bps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, Self)
    }
}

impl<'de> Deserialize<'de> for IsoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, |seconds| Self(Duration::from_secs(seconds)))
    }
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a whole number from 0 to 2^64 - 1, or text with a unit"
)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

fn read<'de, D, T>(deserializer: D, of: impl FnOnce(u64) -> T) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Number(number) => Ok(of(number)),
        NumberOrText::Text(text) => text.parse().map_err(de::Error::custom),
    }
}

/// Quantity in a configuration file: text with a unit. A bare number is refused, because its unit
/// would be a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithUnit<T>(pub T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for WithUnit<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData))
    }
}

/// Reads a number as text, so that an invalid number is refused with the same message as invalid text.
struct Reader<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Reader<T> {
    type Value = WithUnit<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text with a unit")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse().map(WithUnit).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_text_with_units_are_equal() {
        let bytes = |json: &str| serde_json::from_str::<Bytes>(json).map(|bytes| bytes.0);
        assert_eq!(bytes("1200000000000").unwrap(), bytes("\"1.2TB\"").unwrap());
        assert_eq!(bytes("9223372036854775808").unwrap(), 1 << 63);
        let bps = |json: &str| serde_json::from_str::<Bps>(json).map(|bps| bps.0);
        assert_eq!(bps("900000000").unwrap(), bps("\"900Mb/s\"").unwrap());
        let span =
            |json: &str| serde_json::from_str::<IsoDuration>(json).map(|span| span.0.as_secs());
        for json in [
            "9000",
            "\"9000s\"",
            "\"PT2H30M\"",
            "\"2h 30m\"",
            "\"2h30m\"",
        ] {
            assert_eq!(span(json).unwrap(), 9000, "{json}");
        }
        for (json, hours) in [
            ("\"1d\"", 24),
            ("\"P1D\"", 24),
            ("\"7d\"", 168),
            ("\"1d 2h\"", 26),
            ("\"P1DT2H\"", 26),
            ("\"2 days\"", 48),
        ] {
            assert_eq!(span(json).unwrap(), hours * 3600, "{json}");
        }
        for json in [
            "\"30\"",
            "\"\"",
            "\"d\"",
            "\"PD\"",
            "\"-1d\"",
            "\"99999999999999999d\"",
        ] {
            assert!(span(json).is_err(), "{json}");
        }
        assert_eq!(bytes("\"1PB\"").unwrap(), bytes("\"1000TB\"").unwrap());
        assert_eq!(bytes("\"1.5PiB\"").unwrap(), 3 << 49);
        assert!(bytes("\"999999PB\"").is_err());
    }

    #[test]
    fn text_that_is_not_a_quantity_is_refused_with_an_example() {
        for json in ["-1", "1.5", "null", "18446744073709551616", "[]"] {
            let why = serde_json::from_str::<Bytes>(json).unwrap_err().to_string();
            assert!(why.contains("whole number"), "{json}: {why}");
        }
        let why = serde_json::from_str::<Bps>("\"fast\"").unwrap_err();
        assert!(why.to_string().contains("900Mb/s"), "{why}");
        let why = serde_json::from_str::<IsoDuration>("\"-1h\"").unwrap_err();
        assert!(why.to_string().contains("PT2M"), "{why}");
    }

    #[test]
    fn length_of_time_is_written_as_iso_8601() {
        let span = IsoDuration(Duration::from_mins(150));
        assert_eq!(serde_json::to_string(&span).unwrap(), "\"PT2H30M\"");
        assert_eq!(span.to_string(), "2h 30m");
    }
}
