//! Runs a machine on real sockets: transmit, hear events, wait for the first of message and deadline.
//!
//! - [`lane`]: what a machine talks over; [`mod@run`]: the loop, and who made the machine
//! - [`share`]: the rate that lanes have together
//! - `send`, `receive`: out and in; `scatter`: in, straight to where it is expected
pub mod lane;
pub mod run;
pub mod share;

mod receive;
mod scatter;
mod send;

pub use lane::{Counters, Lane};
pub use run::{Next, Owner, run};
pub use share::Share;
