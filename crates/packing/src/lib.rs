//! Floor 0: typed messages, packed for programs of other languages and hosts.
//!
//! ```text
//! "Pose { time: f64, joints: [f32] }" -> Schema -> Message -> octets -> stream -> octets -> Message
//! ```
//!
//! The format is CBOR (RFC 8949), and arrays of numbers are typed arrays of RFC 8746: one tag and the octets in
//! little-endian order. So an array costs no work for each element, and libraries for CBOR in other languages read it.
//!
//! - [`schema`]: names and types of the fields of a message; [`number`]: types of numbers
//! - [`message`]: values of the fields; [`value`]: one of them; `wire`: their octets
//! - [`channel`]: announcement and check of the schema on a stream; [`error`]: faults

pub mod channel;
pub mod error;
pub mod message;
pub mod number;
pub mod schema;
pub mod value;

mod wire;

pub use channel::{ANNOUNCED_AFTER, Announcer, Checker};
pub use error::{Error, Result};
pub use message::Message;
pub use number::{Element, Number};
pub use schema::{Field, FieldType, Schema};
pub use value::Value;
