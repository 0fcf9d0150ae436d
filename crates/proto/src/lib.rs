//! Floor 2: every protocol as a pure machine, one folder each, with its wire format inside.
//!
//! - [`parts`]: what several machines share: pacer, tally, loss list
//! - [`fec`]: a stream of messages that need no retransmission
//! - [`rbudp`]: Reliable Blast UDP, and the model that predicts it
//! - [`vbtp`]: Varying-Bandwidth Transport Protocol, which follows a circuit's vector
//! - [`slabs`]: many sessions' bytes between two gateways, in slabs
//! - [`stripe`]: one object over many streams
//! - [`sabul`]: SABUL, whose rate follows the loss
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod fec;
pub mod parts;
pub mod rbudp;
pub mod sabul;
pub mod slabs;
pub mod stripe;
pub mod vbtp;
