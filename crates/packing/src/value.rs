//! Values of fields.

use crate::error::{Error, Result};
use crate::number::Number;
use crate::schema::{Field, FieldType};

/// Value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// Whole number of 0 or more.
    Unsigned(u64),
    /// Whole number.
    Signed(i64),
    /// Floating-point number.
    Float(f64),
    /// Text.
    Text(String),
    /// Octets.
    Bytes(Vec<u8>),
    /// Octets of an array, in little-endian order.
    Array(Number, Vec<u8>),
}

impl Value {
    /// Returns the value as the field has it, or the reason for which it cannot.
    pub(crate) fn fit(self, field: &Field) -> Result<Self> {
        let name = || field.name.clone();
        let expected = || field.kind.to_string();
        let other = |found: String| Error::OtherType {
            field: name(),
            expected: expected(),
            found,
        };
        let range = || Error::Range {
            field: name(),
            expected: expected(),
        };
        match (field.kind, self) {
            (FieldType::Bool, value @ Self::Bool(_))
            | (FieldType::Text, value @ Self::Text(_))
            | (FieldType::Bytes, value @ Self::Bytes(_))
            | (FieldType::Number(Number::F64), value @ Self::Float(_)) => Ok(value),
            (FieldType::Number(number), Self::Unsigned(value)) => {
                whole(number, value.into()).ok_or_else(range)
            }
            (FieldType::Number(number), Self::Signed(value)) => {
                whole(number, value.into()).ok_or_else(range)
            }
            (FieldType::Number(Number::F32), Self::Float(value)) => {
                let rounded = value as f32;
                let fits = rounded.is_finite() || !value.is_finite();
                fits.then_some(Self::Float(rounded.into()))
                    .ok_or_else(range)
            }
            (FieldType::Array(number, len), Self::Array(found, octets)) if number == found => {
                let count = octets.len() / number.width();
                let fits = len.is_none_or(|len| len as usize == count)
                    && octets.len().is_multiple_of(number.width());
                fits.then_some(Self::Array(number, octets))
                    .ok_or_else(range)
            }
            (_, value) => Err(other(value.name())),
        }
    }

    /// Returns the name of the type.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Bool(_) => "bool".to_owned(),
            Self::Unsigned(_) | Self::Signed(_) => "a whole number".to_owned(),
            Self::Float(_) => "a floating-point number".to_owned(),
            Self::Text(_) => "text".to_owned(),
            Self::Bytes(_) => "bytes".to_owned(),
            Self::Array(number, _) => format!("[{number}]"),
        }
    }
}

/// Returns a whole number of a type, or none if the type cannot hold it exactly.
fn whole(number: Number, value: i128) -> Option<Value> {
    match number.range() {
        Some((least, most)) if (least..=most).contains(&value) => {
            if least == 0 {
                Some(Value::Unsigned(value.try_into().ok()?))
            } else {
                Some(Value::Signed(value.try_into().ok()?))
            }
        }
        Some(_) => None,
        None => {
            let most = if number == Number::F32 {
                1 << 24
            } else {
                1 << 53
            };
            (-most..=most)
                .contains(&value)
                .then_some(Value::Float(value as f64))
        }
    }
}

/// Implements conversions of the types of Rust.
macro_rules! values {
    ($($from:ty => $value:ident),+) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$value(value.into())
            }
        }
    )+};
}

values!(
    bool => Bool, u8 => Unsigned, u16 => Unsigned, u32 => Unsigned, u64 => Unsigned, i8 => Signed, i16 => Signed,
    i32 => Signed, i64 => Signed, f32 => Float, f64 => Float, &str => Text, String => Text, &[u8] => Bytes,
    Vec<u8> => Bytes
);
