//! Messages: values of the fields of a schema.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::number::{Element, Number};
use crate::schema::Schema;
use crate::value::Value;
use crate::wire;

/// Message of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    schema: Arc<Schema>,
    values: Vec<Option<Value>>,
}

impl Message {
    /// Returns a message without values.
    pub fn new(schema: &Arc<Schema>) -> Self {
        Self {
            schema: Arc::clone(schema),
            values: vec![None; schema.fields().len()],
        }
    }

    /// Reads a packed message of this schema.
    pub fn unpack(schema: &Arc<Schema>, octets: &[u8]) -> Result<Self> {
        match wire::decode(octets)? {
            wire::Frame::Announcement(_) => Err(Error::Malformed("it announces a schema")),
            wire::Frame::Message(number, values) => {
                if number != schema.number() {
                    return Err(Error::Unannounced(schema.name().to_owned()));
                }
                Self::of_values(schema, values)
            }
        }
    }

    pub(crate) fn of_values(schema: &Arc<Schema>, values: Vec<Value>) -> Result<Self> {
        if values.len() != schema.fields().len() {
            return Err(Error::Malformed("it has another number of values"));
        }
        let values = schema.fields().iter().zip(values);
        let values = values.map(|(field, value)| value.fit(field).map(Some));
        Ok(Self {
            schema: Arc::clone(schema),
            values: values.collect::<Result<_>>()?,
        })
    }

    /// Returns the schema.
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Sets a field. Its type must fit.
    pub fn set(&mut self, field: &str, value: impl Into<Value>) -> Result<&mut Self> {
        let place = self.schema.place(field)?;
        let value = value.into().fit(&self.schema.fields()[place])?;
        self.values[place] = Some(value);
        Ok(self)
    }

    /// Sets an array, without work for each element.
    pub fn set_array<T: Element>(&mut self, field: &str, array: &[T]) -> Result<&mut Self> {
        self.set(field, Value::Array(T::NUMBER, T::octets(array)))
    }

    /// Returns the value of a field.
    pub fn value(&self, field: &str) -> Result<&Value> {
        let place = self.schema.place(field)?;
        let value = self.values[place].as_ref();
        value.ok_or_else(|| Error::Unset(field.to_owned()))
    }

    /// Returns true or false.
    pub fn boolean(&self, field: &str) -> Result<bool> {
        let Value::Bool(value) = self.value(field)? else {
            return Err(self.other(field, "bool"));
        };
        Ok(*value)
    }

    /// Returns a whole number of 0 or more.
    pub fn unsigned(&self, field: &str) -> Result<u64> {
        let Value::Unsigned(value) = self.value(field)? else {
            return Err(self.other(field, "a number of 0 or more"));
        };
        Ok(*value)
    }

    /// Returns a whole number.
    pub fn signed(&self, field: &str) -> Result<i64> {
        let Value::Signed(value) = self.value(field)? else {
            return Err(self.other(field, "a number with a sign"));
        };
        Ok(*value)
    }

    /// Returns a floating-point number.
    pub fn float(&self, field: &str) -> Result<f64> {
        let Value::Float(value) = self.value(field)? else {
            return Err(self.other(field, "a floating-point number"));
        };
        Ok(*value)
    }

    /// Returns a text.
    pub fn text(&self, field: &str) -> Result<&str> {
        let Value::Text(value) = self.value(field)? else {
            return Err(self.other(field, "text"));
        };
        Ok(value)
    }

    /// Returns octets.
    pub fn bytes(&self, field: &str) -> Result<&[u8]> {
        let Value::Bytes(value) = self.value(field)? else {
            return Err(self.other(field, "bytes"));
        };
        Ok(value)
    }

    /// Returns an array.
    pub fn array<T: Element>(&self, field: &str) -> Result<Vec<T>> {
        self.octets(field, T::NUMBER).map(T::array)
    }

    /// Returns the octets of an array, in little-endian order.
    pub fn octets(&self, field: &str, number: Number) -> Result<&[u8]> {
        match self.value(field)? {
            Value::Array(found, octets) if *found == number => Ok(octets),
            Value::Bool(_)
            | Value::Unsigned(_)
            | Value::Signed(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::Bytes(_)
            | Value::Array(..) => Err(self.other(field, &format!("[{number}]"))),
        }
    }

    /// Returns the octets for a stream. All fields must be set.
    pub fn pack(&self) -> Result<Vec<u8>> {
        let values = self.schema.fields().iter().zip(&self.values);
        let values = values.map(|(field, value)| {
            let value = value.as_ref();
            value.ok_or_else(|| Error::Unset(field.name.clone()))
        });
        let values: Vec<&Value> = values.collect::<Result<_>>()?;
        Ok(wire::encode(&self.schema, &values))
    }

    /// Returns the fault of a request for another type than that of the field.
    fn other(&self, field: &str, asked: &str) -> Error {
        match self.schema.place(field) {
            Ok(place) => Error::OtherType {
                field: field.to_owned(),
                expected: self.schema.fields()[place].kind.to_string(),
                found: asked.to_owned(),
            },
            Err(error) => error,
        }
    }
}
