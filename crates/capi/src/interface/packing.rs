//! Typed messages: packed by schemas that programs of several languages share.
#![expect(unsafe_code, reason = "exported names and pointers of the program")]

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul::{
    Client, Error, Fault as Failed, Message, Number, PackingError, Schema, TypedStream, Value,
};

use super::client::ClientHandle;
use super::code::{LH_END, ResultCode, result};
use super::stream::{Report, StreamRequest, counted, wanted};
use crate::call::run;
use crate::callback;
use crate::fault::{Fault, invalid};
use crate::handles::{self, Object};
use crate::memory;

/// Schema: the name of a message, and the names and types of its fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchemaHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// Typed message: values of the fields of a schema.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MessageHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// Running stream of typed messages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TypedHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// Type of the numbers of an array: `uint8_t`.
pub const LH_U8: i32 = 0;
/// `uint16_t`
pub const LH_U16: i32 = 1;
/// `uint32_t`
pub const LH_U32: i32 = 2;
/// `uint64_t`
pub const LH_U64: i32 = 3;
/// `int8_t`
pub const LH_I8: i32 = 4;
/// `int16_t`
pub const LH_I16: i32 = 5;
/// `int32_t`
pub const LH_I32: i32 = 6;
/// `int64_t`
pub const LH_I64: i32 = 7;
/// `float`
pub const LH_F32: i32 = 8;
/// `double`
pub const LH_F64: i32 = 9;

impl Object for Arc<Schema> {
    const NAME: &'static str = "schema";
}

impl Object for Mutex<Message> {
    const NAME: &'static str = "message";
}

impl Object for TypedStream {
    const NAME: &'static str = "typed stream";
}

/// Reads a schema, as in `Pose { time: f64, joints: [f32], name: text }`. Types are bool, text, bytes, numbers as in u8,
/// i32 and f64, and arrays as in [f32] and [f32; 16].
#[unsafe(no_mangle)]
pub extern "C" fn lh_schema_parse(text: *const c_char, schema: *mut SchemaHandle) -> ResultCode {
    result(run(|| {
        memory::require(schema, "schema")?;
        let parsed: Schema = memory::text(text, "text")?.parse().map_err(failed)?;
        let id = handles::open(Arc::new(parsed));
        memory::store(schema, SchemaHandle { id });
        Ok(())
    }))
}

/// Closes a schema. Messages and streams keep it.
#[unsafe(no_mangle)]
pub extern "C" fn lh_schema_close(schema: SchemaHandle) -> ResultCode {
    result(run(|| handles::close::<Arc<Schema>>(schema.id).map(drop)))
}

/// Makes a message without values.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_create(
    schema: SchemaHandle,
    message: *mut MessageHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(message, "message")?;
        let schema = handles::get::<Arc<Schema>>(schema.id)?;
        memory::store(message, opened(Message::new(&schema)));
        Ok(())
    }))
}

/// Closes a message.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_close(message: MessageHandle) -> ResultCode {
    result(run(|| {
        handles::close::<Mutex<Message>>(message.id).map(drop)
    }))
}

/// Sets a field of type bool: 0 is false.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_set_bool(
    message: MessageHandle,
    field: *const c_char,
    value: i32,
) -> ResultCode {
    set(message, field, || Ok(Value::Bool(value != 0)))
}

/// Sets a field that is a number.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_set_unsigned(
    message: MessageHandle,
    field: *const c_char,
    value: u64,
) -> ResultCode {
    set(message, field, || Ok(value.into()))
}

/// Sets a field that is a number.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_set_signed(
    message: MessageHandle,
    field: *const c_char,
    value: i64,
) -> ResultCode {
    set(message, field, || Ok(value.into()))
}

/// Sets a field of type f32 or f64.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_set_float(
    message: MessageHandle,
    field: *const c_char,
    value: f64,
) -> ResultCode {
    set(message, field, || Ok(value.into()))
}

/// Sets a field of type text, which ends with zero.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_set_text(
    message: MessageHandle,
    field: *const c_char,
    value: *const c_char,
) -> ResultCode {
    set(message, field, || Ok(memory::text(value, "value")?.into()))
}

/// Sets a field of type text to the `len` bytes at `value`, which must be UTF-8. Zero bytes are part of the text.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_set_string(
    message: MessageHandle,
    field: *const c_char,
    value: *const c_char,
    len: usize,
) -> ResultCode {
    set(message, field, || {
        let octets = memory::input(value.cast(), len, "value")?;
        let text = str::from_utf8(octets).map_err(|_| Fault::Text("value"))?;
        Ok(text.into())
    })
}

/// Sets a field of type bytes.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_set_bytes(
    message: MessageHandle,
    field: *const c_char,
    value: *const c_void,
    len: usize,
) -> ResultCode {
    set(message, field, || {
        Ok(memory::input(value, len, "value")?.into())
    })
}

/// Sets a field that is an array: `count` numbers of a type as in `LH_F32`, in the memory of this host.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_set_array(
    message: MessageHandle,
    field: *const c_char,
    number: i32,
    values: *const c_void,
    count: usize,
) -> ResultCode {
    set(message, field, || {
        let number = number_of(number)?;
        let len = count.saturating_mul(number.width());
        let mut octets = memory::input(values, len, "values")?.to_vec();
        swap(&mut octets, number);
        Ok(Value::Array(number, octets))
    })
}

/// Stores the value of a field of type bool: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_bool(
    message: MessageHandle,
    field: *const c_char,
    value: *mut i32,
) -> ResultCode {
    read(message, field, value, |message, field| {
        message.boolean(field).map(i32::from)
    })
}

/// Stores the value of a field that is a number of 0 or more.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_unsigned(
    message: MessageHandle,
    field: *const c_char,
    value: *mut u64,
) -> ResultCode {
    read(message, field, value, Message::unsigned)
}

/// Stores the value of a field that is a number with a sign.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_signed(
    message: MessageHandle,
    field: *const c_char,
    value: *mut i64,
) -> ResultCode {
    read(message, field, value, Message::signed)
}

/// Stores the value of a field of type f32 or f64.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_float(
    message: MessageHandle,
    field: *const c_char,
    value: *mut f64,
) -> ResultCode {
    read(message, field, value, Message::float)
}

/// Copies the octets of a text or of bytes into `buffer`, and stores their number. There is no zero at the end. If the
/// buffer is too small, returns `LH_USAGE` and stores the number.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_bytes(
    message: MessageHandle,
    field: *const c_char,
    buffer: *mut c_void,
    capacity: usize,
    len: *mut usize,
) -> ResultCode {
    with_field(message, field, (len, "len"), |message, field| {
        let octets = match message.value(field).map_err(failed)? {
            Value::Text(text) => text.as_bytes(),
            Value::Bool(_)
            | Value::Unsigned(_)
            | Value::Signed(_)
            | Value::Float(_)
            | Value::Bytes(_)
            | Value::Array(..) => message.bytes(field).map_err(failed)?,
        };
        memory::store(len, octets.len());
        memory::output(octets, (buffer, capacity), "buffer")
    })
}

/// Copies the numbers of an array into `values`, which has room for `capacity` numbers, and stores their number. If
/// there are more, returns `LH_USAGE` and stores the number.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_array(
    message: MessageHandle,
    field: *const c_char,
    number: i32,
    values: *mut c_void,
    capacity: usize,
    count: *mut usize,
) -> ResultCode {
    with_field(message, field, (count, "count"), |message, field| {
        let number = number_of(number)?;
        let octets = message.octets(field, number).map_err(failed)?;
        memory::store(count, octets.len() / number.width());
        let room = capacity.saturating_mul(number.width());
        if cfg!(target_endian = "little") {
            return memory::output(octets, (values, room), "values");
        }
        let mut octets = octets.to_vec();
        swap(&mut octets, number);
        memory::output(&octets, (values, room), "values")
    })
}

/// Packs a message into `buffer`, for example for a file, and stores the number of octets. All fields must be set.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_pack(
    message: MessageHandle,
    buffer: *mut c_void,
    capacity: usize,
    len: *mut usize,
) -> ResultCode {
    result(run(|| {
        memory::require(len, "len")?;
        let message = handles::get::<Mutex<Message>>(message.id)?;
        let packed = locked(&message).pack().map_err(failed)?;
        memory::store(len, packed.len());
        memory::output(&packed, (buffer, capacity), "buffer")
    }))
}

/// Reads a packed message of a schema.
#[unsafe(no_mangle)]
pub extern "C" fn lh_message_unpack(
    schema: SchemaHandle,
    octets: *const c_void,
    len: usize,
    message: *mut MessageHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(message, "message")?;
        let schema = handles::get::<Arc<Schema>>(schema.id)?;
        let octets = memory::input(octets, len, "octets")?;
        let read = Message::unpack(&schema, octets).map_err(failed)?;
        memory::store(message, opened(read));
        Ok(())
    }))
}

/// Opens a stream of messages of a schema, as `lh_stream_open()` does. The framing is `LH_PREFIXED`.
#[unsafe(no_mangle)]
pub extern "C" fn lh_typed_open(
    client: ClientHandle,
    request: *const StreamRequest,
    schema: SchemaHandle,
    stream: *mut TypedHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(stream, "stream")?;
        let client = handles::get::<Client>(client.id)?;
        let schema = handles::get::<Arc<Schema>>(schema.id)?;
        let wanted = wanted(&memory::request(request)?)?;
        let id = handles::open(client.typed_stream(wanted, &schema)?);
        memory::store(stream, TypedHandle { id });
        Ok(())
    }))
}

/// Sends a message. Waits while the buffer of the stream is full, so a function for notices cannot call it.
#[unsafe(no_mangle)]
pub extern "C" fn lh_typed_send(stream: TypedHandle, message: MessageHandle) -> ResultCode {
    result(run(|| {
        callback::forbid_in_note()?;
        let stream = handles::get::<TypedStream>(stream.id)?;
        let message = handles::get::<Mutex<Message>>(message.id)?;
        // the program may use the message while this call waits
        let message = locked(&message).clone();
        stream.send(&message)
    }))
}

/// Waits for the next message, which the program closes. Returns `LH_END` at the end of the stream, and `LH_PROTOCOL`
/// with the difference if the sender has another schema. A callback cannot call it.
#[unsafe(no_mangle)]
pub extern "C" fn lh_typed_receive(stream: TypedHandle, message: *mut MessageHandle) -> ResultCode {
    let received = run(|| {
        memory::require(message, "message")?;
        callback::forbid()?;
        let stream = handles::get::<TypedStream>(stream.id)?;
        let Some(received) = stream.receive()? else {
            return Ok(false);
        };
        memory::store(message, opened(received));
        Ok(true)
    });
    match received {
        Ok(false) => LH_END,
        received => result(received.map(drop)),
    }
}

/// Ends a stream, and waits until all messages have arrived, as `lh_stream_finish()` does. `report` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn lh_typed_finish(stream: TypedHandle, report: *mut Report) -> ResultCode {
    result(run(|| {
        callback::forbid()?;
        let stream = handles::get::<TypedStream>(stream.id)?;
        let summary = stream.finish()?;
        memory::store(report, counted(&summary));
        Ok(())
    }))
}

/// Cancels a stream, waits for its end, and closes it, as `lh_stream_close()` does.
#[unsafe(no_mangle)]
pub extern "C" fn lh_typed_close(stream: TypedHandle) -> ResultCode {
    result(run(|| {
        let typed = handles::close::<TypedStream>(stream.id)?;
        typed.stream().cancel();
        if !callback::is_within() {
            // its result is of no interest now
            while typed.stream().wait_for(LOOK).is_none() {}
        }
        Ok(())
    }))
}

fn opened(message: Message) -> MessageHandle {
    let id = handles::open(Mutex::new(message));
    MessageHandle { id }
}

fn locked(message: &Mutex<Message>) -> MutexGuard<'_, Message> {
    message.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: PackingError) -> Error {
    Failed::Packing(error).into()
}

fn set(
    message: MessageHandle,
    field: *const c_char,
    value: impl FnOnce() -> Result<Value, Error>,
) -> ResultCode {
    result(run(|| {
        let (message, field) = found(message, field)?;
        let value = value()?;
        locked(&message).set(&field, value).map_err(failed)?;
        Ok(())
    }))
}

fn read<T>(
    message: MessageHandle,
    field: *const c_char,
    value: *mut T,
    read: impl FnOnce(&Message, &str) -> Result<T, PackingError>,
) -> ResultCode {
    with_field(message, field, (value, "value"), |message, field| {
        let found = read(message, field).map_err(failed)?;
        memory::store(value, found);
        Ok(())
    })
}

/// Reads a field of a message into memory of the program, `stored`, which has a name for errors.
fn with_field<T>(
    message: MessageHandle,
    field: *const c_char,
    (stored, name): (*mut T, &'static str),
    read: impl FnOnce(&Message, &str) -> Result<(), Error>,
) -> ResultCode {
    result(run(|| {
        memory::require(stored, name)?;
        let (message, field) = found(message, field)?;
        read(&locked(&message), &field)
    }))
}

/// Returns the message of a handle, and the name of a field.
fn found(
    message: MessageHandle,
    field: *const c_char,
) -> Result<(Arc<Mutex<Message>>, String), Error> {
    let message = handles::get::<Mutex<Message>>(message.id)?;
    Ok((message, memory::text(field, "field")?))
}

fn number_of(number: i32) -> Result<Number, Error> {
    let known = usize::try_from(number).ok();
    let known = known.and_then(|number| Number::ALL.get(number));
    known.copied().ok_or_else(|| {
        let allowed = "use LH_U8 to LH_F64";
        invalid("the type of the numbers", &number.to_string(), allowed)
    })
}

/// Swaps the octets of each number on hosts whose order differs from that of messages.
fn swap(octets: &mut [u8], number: Number) {
    if cfg!(target_endian = "big") {
        for number in octets.chunks_exact_mut(number.width()) {
            number.reverse();
        }
    }
}

/// Interval at which a thread that waits without a limit looks again.
const LOOK: Duration = Duration::from_hours(1);
