//! Every protocol as a state machine without I/O (floor 2), one directory each, with its wire format inside.
//!
//! - [`fec`]: message stream with forward error correction instead of retransmission
//! - [`rbudp`]: Reliable Blast UDP, and the analytical model that predicts its throughput
//! - [`vbtp`]: Varying-Bandwidth Transport Protocol, which sends at the rate of a circuit's TRC vector
//! - [`stripe`]: one object over many streams
//! - [`sabul`]: SABUL, whose rate control reacts to loss
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod fec;
#[cfg(test)]
mod framing_cases;
pub mod rbudp;
pub mod sabul;
pub mod stripe;
pub mod vbtp;
