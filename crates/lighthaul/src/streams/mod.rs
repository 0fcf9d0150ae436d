//! Streams to and from programs on other hosts.
//!
//! - `stream`: a running stream of messages; `request`: its request; `typed`: one of typed messages;
//!   `timed_lock`: turns of its readers

mod request;
mod stream;
mod timed_lock;
mod typed;

pub use lighthaul_packing::{
    Element, Error as PackingError, Field, FieldType, Message, Number, Schema, Value,
};
pub use lighthaul_stream::{frames::Frames, message::Report as StreamReport};

pub use request::{Direction, MessageOptions, ObjectOptions, StreamKind, StreamRequest};
pub use stream::{Received, Stream, StreamEvent, StreamSummary};
pub use typed::TypedStream;
