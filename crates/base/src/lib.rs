//! Shared vocabulary types, and the contract between a protocol state machine and the code that drives it (floor 0).
//!
//! - [`time`]: instants that can be zero; [`civil`]: dates and times of day as people write them
//! - [`rate`], [`size`], [`duration`]: bits per second, bytes and durations in human notation; [`quantity`]: the parts
//!   of their parsers that are the same; [`port_range`]: ports that a firewall lets pass
//! - [`timetable`]: rate limits by day of the week and time of day
//! - [`trc`]: time-range-capacity vectors, the bandwidth of a circuit over time
//! - [`span`]: a byte range of an object
//! - [`rng`]: seeded random numbers
//! - [`codec`]: decoding and encoding of untrusted octets without panics
//! - [`hex`]: hexadecimal digits; [`escape`]: untrusted text as one printable line; [`config_fault`]: line and column
//!   of a fault
//! - [`count`]: numbers with their nouns; [`unsigned`]: numbers without a sign
//! - [`load`]: load samples of a host
//! - [`prefix`]: prefixes of addresses, and the blocks of a host or a site; [`seats`]: max-min fair shares of a limited
//!   resource
//! - [`endpoint`]: one side of one transfer
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod civil;
pub mod codec;
pub mod config_fault;
pub mod count;
pub mod duration;
pub mod endpoint;
pub mod escape;
pub mod hex;
pub mod load;
pub mod port_range;
pub mod prefix;
pub mod quantity;
pub mod rate;
pub mod rng;
pub mod seats;
pub mod size;
pub mod span;
pub mod time;
pub mod timetable;
pub mod trc;
pub mod unsigned;

pub use civil::{CivilTime, ParseCivilTimeError};
pub use codec::{Malformed, Reader};
pub use count::counted;
pub use endpoint::{Body, Deadline, Endpoint, Head, Message, Transmit, Via};
pub use hex::{from_hex, to_hex};
pub use load::{Absence, Load};
pub use port_range::{ParsePortRangeError, PortRange};
pub use quantity::ParseQuantityError;
pub use rate::Rate;
pub use rng::Rng;
pub use size::Size;
pub use span::Span;
pub use time::Instant;
pub use timetable::{ParseTimetableError, Timetable, WeekTime};
pub use trc::Trc;
