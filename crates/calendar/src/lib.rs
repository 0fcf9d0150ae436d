//! Floor 2: capacity over time, the calendar of bookings, and the disciplines that fill it.
//!
//! - [`capacity`]: what is left of a link over time, in `blocks`; `cursor` looks along it, `view` along all links of a path
//! - [`topology`]: nodes and links; [`path`]: links in a row, and the shortest of them
//! - [`config`]: a calendar's bounds and rules
//! - [`request`], [`grant`], [`refusal`]: what is asked for, what is promised, why not and what instead
//! - [`booking`]: one booking; [`calendar`]: all of them; [`change`]: those that end early, grow or move, [`rate_limit`]: and
//!   how fast; [`outage`]: links that are out, [`displaced`]: and what that displaces; [`restore`]: those that a journal has kept
//! - `roll`: bookings by their numbers, and by when they are
//! - `stock`: what a link has for whom; `plan`: how a request is fitted in; `counter`: what could be had instead
//! - `vbls`, [`fbls`]: the disciplines; [`packet`]: what packets would do, to compare with
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod blocks;
pub mod booking;
pub mod calendar;
pub mod capacity;
pub mod change;
pub mod config;
mod counter;
mod cursor;
pub mod displaced;
pub mod fbls;
pub mod grant;
pub mod outage;
pub mod packet;
pub mod path;
mod plan;
pub mod rate_limit;
pub mod refusal;
pub mod request;
pub mod restore;
mod roll;
mod stock;
pub mod topology;
mod vbls;
mod view;

pub use booking::{Booking, Id};
pub use calendar::Calendar;
pub use capacity::{Capacity, Free};
pub use change::{MoveRules, Moved, NoRules, RepackLimits, Scope};
pub use config::Config;
pub use displaced::Displaced;
pub use grant::Grant;
pub use outage::Outage;
pub use packet::Arrival;
pub use path::Path;
pub use rate_limit::RateLimit;
pub use refusal::{Counter, Refusal};
pub use request::{Detail, Need, Request, Shape, Way};
pub use restore::Kept;
pub use stock::Owner;
pub use topology::{Interface, Limits, Link, LinkId, NodeId, Topology};
