//! Typed messages. The package turns arrays into octets and back; all checks are here.

use std::sync::{Arc, Mutex, PoisonError};

use lighthaul::{Error, Fault, Field, FieldType, Message, Number, PackingError, Value};
use lighthaul_packing::{ANNOUNCED_AFTER, Announcer, Checker};
use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};

use crate::errors::raised;

/// Schema: the name of a message, and the names and types of its fields.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Schema {
    schema: Arc<lighthaul::Schema>,
    checker: Checker,
}

/// Values of a message by the names of their fields.
type Values<'py> = Vec<(String, Bound<'py, PyAny>)>;

#[pymethods]
impl Schema {
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        let parsed: Result<lighthaul::Schema, PackingError> = text.parse();
        let schema = Arc::new(parsed.map_err(|error| refused(py, error))?);
        let checker = Checker::new(&schema);
        Ok(Self { schema, checker })
    }

    /// Returns the text without white space.
    fn text(&self) -> String {
        self.schema.to_string()
    }

    /// Returns the name.
    fn name(&self) -> &str {
        self.schema.name()
    }

    /// Returns the names and types of the fields in their order.
    fn fields(&self) -> Vec<(String, String)> {
        let fields = self.schema.fields().iter();
        fields
            .map(|field| (field.name.clone(), field.kind.to_string()))
            .collect()
    }

    /// Returns the number that each message has.
    fn number(&self) -> u64 {
        self.schema.number()
    }

    /// Packs a message. An array is the name of its type and its octets.
    fn pack<'py>(&self, py: Python<'py>, values: Values<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut message = Message::new(&self.schema);
        for (name, given) in values {
            let place = self.schema.place(&name);
            let place = place.map_err(|error| refused(py, error))?;
            let value = value(&self.schema.fields()[place], &given)?;
            let set = message.set(&name, value).map(drop);
            set.map_err(|error| refused(py, error))?;
        }
        let packed = message.pack().map_err(|error| refused(py, error))?;
        Ok(PyBytes::new(py, &packed))
    }

    /// Reads a packed message.
    fn unpack<'py>(&self, py: Python<'py>, octets: &Bound<'py, PyAny>) -> PyResult<Values<'py>> {
        let octets = PyBuffer::<u8>::get(octets)?.to_vec(py)?;
        let read = Message::unpack(&self.schema, &octets);
        values(py, &read.map_err(|error| refused(py, error))?)
    }

    /// Reads one message of a stream. Returns none for an announcement of this schema.
    fn take<'py>(
        &self,
        py: Python<'py>,
        octets: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Values<'py>>> {
        let octets = PyBuffer::<u8>::get(octets)?.to_vec(py)?;
        let taken = self.checker.take(&octets);
        let taken = taken.map_err(|error| refused(py, error))?;
        taken.map(|message| values(py, &message)).transpose()
    }

    /// Returns the announcements for a stream, which are repeated if messages may be lost.
    fn announcer(&self, is_lossy: bool) -> SchemaAnnouncer {
        let every = is_lossy.then_some(ANNOUNCED_AFTER);
        SchemaAnnouncer {
            announcer: Mutex::new(Announcer::new(&self.schema, every)),
        }
    }
}

/// Announcements of a schema on a stream.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct SchemaAnnouncer {
    announcer: Mutex<Announcer>,
}

#[pymethods]
impl SchemaAnnouncer {
    /// Returns the announcement that must be sent before the next message, if one is due.
    fn before_message<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let mut announcer = self
            .announcer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        announcer
            .before_message()
            .map(|octets| PyBytes::new(py, octets))
    }
}

/// Returns the value of a field that an object of Python stands for.
fn value(field: &Field, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    let found = match field.kind {
        FieldType::Bool => given.extract().ok().map(Value::Bool),
        FieldType::Text => match given.cast::<PyString>() {
            Ok(text) => Some(Value::Text(text.to_str()?.to_owned())),
            Err(_) => None,
        },
        FieldType::Bytes => {
            let buffer = PyBuffer::<u8>::get(given).ok();
            let octets = buffer.map(|buffer| buffer.to_vec(given.py()));
            octets.transpose()?.map(Value::Bytes)
        }
        FieldType::Number(number) => self::number(field, number, given)?,
        FieldType::Array(..) => array(given)?,
    };
    found.ok_or_else(|| other(field, given))
}

/// Returns a number, or none if the object is no number of this type.
fn number(field: &Field, number: Number, given: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if given.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    if let Ok(value) = given.extract::<u64>() {
        return Ok(Some(value.into()));
    }
    match given.extract::<i64>() {
        Ok(value) => Ok(Some(value.into())),
        Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => {
            let expected = field.kind.to_string();
            let field = field.name.clone();
            Err(refused(given.py(), PackingError::Range { field, expected }))
        }
        Err(_) if matches!(number, Number::F32 | Number::F64) => {
            Ok(given.extract::<f64>().ok().map(Value::Float))
        }
        Err(_) => Ok(None),
    }
}

/// Returns an array that the package has turned into octets in little-endian order.
fn array(given: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    let Ok((name, octets)) = given.extract::<(String, PyBuffer<u8>)>() else {
        return Ok(None);
    };
    let known = Number::ALL.into_iter().find(|number| number.name() == name);
    let octets = octets.to_vec(given.py())?;
    Ok(known.map(|number| Value::Array(number, octets)))
}

/// Returns the values of a message. An array is the name of its type and its octets.
fn values<'py>(py: Python<'py>, message: &Message) -> PyResult<Values<'py>> {
    let fields = message.schema().fields().iter();
    let value = |field: &Field| {
        let value = message.value(&field.name);
        let value = value.map_err(|error| refused(py, error))?;
        Ok((field.name.clone(), object(py, value)?))
    };
    fields.map(value).collect()
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Unsigned(value) => value.into_bound_py_any(py),
        Value::Signed(value) => value.into_bound_py_any(py),
        Value::Float(value) => value.into_bound_py_any(py),
        Value::Text(text) => text.into_bound_py_any(py),
        Value::Bytes(octets) => Ok(PyBytes::new(py, octets).into_any()),
        Value::Array(number, octets) => {
            (number.name(), PyBytes::new(py, octets)).into_bound_py_any(py)
        }
    }
}

/// Returns the exception for an object that is no value of its field.
fn other(field: &Field, given: &Bound<'_, PyAny>) -> PyErr {
    let found = given.get_type().name();
    let found = found.map_or_else(|_| "this object".to_owned(), |name| name.to_string());
    let error = PackingError::OtherType {
        field: field.name.clone(),
        expected: field.kind.to_string(),
        found,
    };
    refused(given.py(), error)
}

/// Returns the exception for a fault. As elsewhere in Python, a value of a wrong type is a `TypeError`.
fn refused(py: Python<'_>, error: PackingError) -> PyErr {
    if let PackingError::OtherType { .. } = error {
        return PyTypeError::new_err(error.to_string());
    }
    raised(py, &Error::from(Fault::Packing(error)))
}
