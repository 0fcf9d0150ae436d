//! Event loop that runs a protocol machine on real sockets.
//!
//! Each turn transmits, delivers messages and events, and waits for the next message or deadline.
//!
//! - [`lane`]: sockets and streams of a machine; [`mod@run`]: the loop, and the machine's owner
//! - [`share`]: a rate shared by lanes
//! - `send`, `receive`: the two directions; `scatter`: reception directly in the expected place
pub mod lane;
pub mod run;
pub mod share;

mod receive;
mod scatter;
mod send;

pub use lane::{Counters, Lane};
pub use run::{Next, Owner, run};
pub use share::Share;
