//! The control connection: framed messages on numbered streams over one TLS connection; further ones, which carry nothing
//! but packets, leave TLS for the seal that datagrams have.
//!
//! - [`connection`]: our end of it; [`stream`]: one stream; [`frame`]: what crosses
//! - `queues`: what waits in between; `shovel`: the thread between them and the socket; `guard`: what it sees through
pub mod connection;
pub mod frame;
pub mod stream;

mod guard;
mod queues;
mod shovel;

pub use connection::Control;
pub use frame::{Assembly, FRAME_MAX, Frame};
pub use stream::Stream;
