//! Floor 1: what every room shares, and the contract between a machine and its world.
//!
//! - [`time`]: instants that can be zero; [`rate`]: bits a second; [`size`]: bytes as people write them
//! - [`timetable`]: which rate holds at which time of the week
//! - [`trc`]: what a circuit carries, and when
//! - [`span`]: a range of an object
//! - [`rng`]: chance from a seed
//! - [`codec`]: reading and writing octets without panics
//! - [`hex`]: octets as digits; [`escape`]: foreign text as one harmless line
//! - [`load`]: how a host is doing
//! - [`prefix`]: addresses that count as one host or site; [`seats`]: fair shares of what is bounded
//! - [`endpoint`]: one side of one transfer
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod codec;
pub mod endpoint;
pub mod escape;
pub mod hex;
pub mod load;
pub mod prefix;
pub mod rate;
pub mod rng;
pub mod seats;
pub mod size;
pub mod span;
pub mod time;
pub mod timetable;
pub mod trc;

pub use codec::{Malformed, Reader};
pub use endpoint::{Body, Deadline, Endpoint, Head, Message, Transmit, Via};
pub use hex::{from_hex, to_hex};
pub use load::{Absence, Load};
pub use rate::Rate;
pub use rng::Rng;
pub use size::Size;
pub use span::Span;
pub use time::Instant;
pub use timetable::{NotATimetable, Timetable, WeekTime};
pub use trc::Trc;
