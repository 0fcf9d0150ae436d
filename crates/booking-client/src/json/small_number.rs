//! Whole numbers from 0 to 255 in a request, with an error that names this range.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};

/// Reads a number or `null`, for `deserialize_with`.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    let read = Option::<SmallNumber>::deserialize(deserializer)?;
    Ok(read.map(|SmallNumber(number)| number))
}

struct SmallNumber(u8);

impl<'de> Deserialize<'de> for SmallNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u8(SmallNumberVisitor)
    }
}

struct SmallNumberVisitor;

impl Visitor<'_> for SmallNumberVisitor {
    type Value = SmallNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0 to 255")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<SmallNumber, E> {
        let wrong = |_| E::invalid_value(Unexpected::Unsigned(number), &self);
        u8::try_from(number).map(SmallNumber).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Error;

    use super::*;

    fn parse(text: &str) -> Result<Option<u8>, Error> {
        read(&mut serde_json::Deserializer::from_str(text))
    }

    #[test]
    fn error_of_a_number_out_of_range_names_the_range() {
        assert_eq!(parse("255").unwrap(), Some(255));
        assert_eq!(parse("null").unwrap(), None);
        for text in ["256", "-1", "1.5", "\"7\"", "[]"] {
            let why = parse(text).unwrap_err().to_string();
            assert!(
                why.contains("a whole number from 0 to 255"),
                "{text}: {why}"
            );
        }
    }
}
