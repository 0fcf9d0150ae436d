//! Streams to and from programs on other hosts.
//!
//! - `stream`: a running stream of messages; `request`: its request

mod request;
mod stream;

pub use lighthaul_stream::{frames::Frames, message::Report as StreamReport};

pub use request::{Direction, MessageOptions, ObjectOptions, StreamKind, StreamRequest};
pub use stream::{Stream, StreamEvent, StreamSummary};
