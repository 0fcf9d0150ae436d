//! An object striped over streams: each packet crosses on whichever stream has room for it (Quanta's
//! parallel TCP).
//!
//! The papers only say that a buffer is cut and sent over several sockets. Ranges that are cut beforehand
//! make all wait for the slowest stream, so here a stream asks, by having room, and gets one packet. What
//! one was given that broke goes to the others. How many are used is measured: a few at first, and twice as
//! many as long as that brings more.
//!
//! - [`config`]: what both sides agree on; [`wire`]: what crosses
//! - [`sender`], [`receiver`]: the two machines
//! - [`width`]: how many streams are used
pub mod config;
pub mod receiver;
pub mod sender;
pub mod width;
pub mod wire;

pub use config::{Config, Misuse, PACKETS_MAX, STREAMS_MAX};
pub use receiver::{Receiver, ReceiverEvent};
pub use sender::{PeerMisbehaved, Sender, SenderEvent};
pub use width::Width;
