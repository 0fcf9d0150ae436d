//! The control connection: framed messages on numbered streams over one TLS connection.
//!
//! - [`connection`]: our end of it; [`stream`]: one stream; [`frame`]: what crosses
//! - `queues`: what waits in between; `shovel`: the thread between them and the socket
pub mod connection;
pub mod frame;
pub mod stream;

mod queues;
mod shovel;

pub use connection::Control;
pub use frame::{Assembly, FRAME_MAX, Frame};
pub use stream::Stream;
