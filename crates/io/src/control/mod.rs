//! Control connection: framed messages on numbered streams over one TLS connection.
//!
//! Further connections of a transfer, which carry only packets, leave TLS and seal each frame like a datagram.
//!
//! ```text
//! Stream --> queues --> connection thread --> protection (TLS or seal) --> TCP
//! ```
//!
//! - [`connection`]: the local end; [`stream`]: one stream; [`frame`]: frames and their decoder
//! - [`bounded`]: bounds of lists and texts in messages
//! - `queues`: frames in both directions; `connection_thread`: the connection's thread; `protection`: encryption
pub mod bounded;
pub mod connection;
pub mod frame;
pub mod stream;

mod connection_thread;
mod protection;
mod queues;

pub use connection::Control;
pub use frame::{Assembly, FRAME_MAX, Frame};
pub use queues::QueueLimit;
pub use stream::Stream;
