//! Octets of messages and announcements, in CBOR (RFC 8949).
//!
//! ```text
//! message       [number of the schema, value, value, ...]
//! announcement  [text of the schema]
//! ```
//!
//! Values have the shortest form of their type. An array of numbers is a byte string with the tag of its type (RFC 8746).

use minicbor::data::{Tag, Type};
use minicbor::{Decoder, Encoder};

use crate::error::{Error, Result};
use crate::number::Number;
use crate::schema::{FieldType, Schema, TEXT_MAX};
use crate::value::Value;

/// Content of one message of a stream.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame<'a> {
    /// Text of the schema of the messages that follow.
    Announcement(&'a str),
    /// Number of the schema, and values.
    Message(u64, Vec<Value>),
}

/// Returns the octets of a message.
pub(crate) fn encode(schema: &Schema, values: &[&Value]) -> Vec<u8> {
    let fields = schema.fields();
    let mut encoder = Encoder::new(Vec::new());
    // writing to memory does not fail
    encoder.array(fields.len() as u64 + 1).ok();
    encoder.u64(schema.number()).ok();
    for (field, value) in fields.iter().zip(values) {
        match value {
            Value::Bool(value) => encoder.bool(*value).map(drop),
            Value::Unsigned(value) => encoder.u64(*value).map(drop),
            Value::Signed(value) => encoder.i64(*value).map(drop),
            Value::Float(value) if field.kind == FieldType::Number(Number::F32) => {
                encoder.f32(*value as f32).map(drop)
            }
            Value::Float(value) => encoder.f64(*value).map(drop),
            Value::Text(text) => encoder.str(text).map(drop),
            Value::Bytes(octets) => encoder.bytes(octets).map(drop),
            Value::Array(number, octets) => {
                let tag = Tag::new(number.tag());
                encoder
                    .tag(tag)
                    .and_then(|encoder| encoder.bytes(octets))
                    .map(drop)
            }
        }
        .ok();
    }
    encoder.into_writer()
}

/// Returns the announcement of a schema.
pub(crate) fn announce(schema: &Schema) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new());
    encoder
        .array(1)
        .and_then(|encoder| encoder.str(&schema.to_string()))
        .ok();
    encoder.into_writer()
}

/// Reads a message or an announcement.
pub(crate) fn decode(octets: &[u8]) -> Result<Frame<'_>> {
    let mut decoder = Decoder::new(octets);
    let count = decoder.array().ok().flatten();
    let count = count.ok_or(Error::Malformed("it is no array"))?;
    let frame = if matches!(decoder.datatype(), Ok(Type::String)) {
        let text = decoder
            .str()
            .map_err(|_| Error::Malformed("its text is cut off"))?;
        if count != 1 || text.len() > TEXT_MAX {
            return Err(Error::Malformed("its announcement is too long"));
        }
        Frame::Announcement(text)
    } else {
        let number = decoder
            .u64()
            .map_err(|_| Error::Malformed("it has no number of a schema"))?;
        let mut values = Vec::new();
        for _ in 1..count {
            values.push(value(&mut decoder)?);
            if values.len() > VALUES_MAX {
                return Err(Error::Malformed("it has too many values"));
            }
        }
        Frame::Message(number, values)
    };
    if decoder.position() == octets.len() {
        Ok(frame)
    } else {
        Err(Error::Malformed("there is more after its end"))
    }
}

fn value(decoder: &mut Decoder<'_>) -> Result<Value> {
    let kind = decoder
        .datatype()
        .map_err(|_| Error::Malformed("it is cut off"))?;
    let read = match kind {
        Type::Bool => decoder.bool().map(Value::Bool),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => decoder.u64().map(Value::Unsigned),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => decoder.i64().map(Value::Signed),
        Type::F32 => decoder.f32().map(|value| Value::Float(value.into())),
        Type::F64 => decoder.f64().map(Value::Float),
        Type::String => decoder.str().map(|text| Value::Text(text.to_owned())),
        Type::Bytes => decoder.bytes().map(|octets| Value::Bytes(octets.to_vec())),
        Type::Tag => return array(decoder),
        Type::Null
        | Type::Undefined
        | Type::Int
        | Type::F16
        | Type::Simple
        | Type::BytesIndef
        | Type::StringIndef
        | Type::Array
        | Type::ArrayIndef
        | Type::Map
        | Type::MapIndef
        | Type::Break
        | Type::Unknown(_) => return Err(Error::Malformed("it has a value of an unknown type")),
    };
    read.map_err(|_| Error::Malformed("it is cut off"))
}

fn array(decoder: &mut Decoder<'_>) -> Result<Value> {
    let tag = decoder
        .tag()
        .map_err(|_| Error::Malformed("it is cut off"))?;
    let found = Number::ALL
        .into_iter()
        .find(|number| number.tag() == tag.as_u64());
    let number = found.ok_or(Error::Malformed("it has an array of an unknown type"))?;
    let octets = decoder
        .bytes()
        .map_err(|_| Error::Malformed("an array is cut off"))?;
    Ok(Value::Array(number, octets.to_vec()))
}

/// Most values of a message.
const VALUES_MAX: usize = 255;
