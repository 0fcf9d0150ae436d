//! Floor 2: capacity over time, the calendar of bookings, and the scheduling disciplines.
//!
//! - [`topology`]: nodes, links and interfaces; [`path`]: shortest paths over them
//! - [`capacity`]: free rate of one link over time, stored in `blocks`; `cursor` reads it in order
//! - `resource`: capacity of one link, divided into shares and reduced by outages; `view`: capacity of a path
//! - [`request`], [`grant`], [`refusal`]: request and possible answers; [`guard`], [`freed_capacity`]: guard times; [`circuit_timer`]: timers of devices
//! - [`booking`]: one granted request; `booking_index`: index of all bookings; [`calendar`]: books and lists them
//! - [`change`]: release, extend, shrink and repack bookings; [`rate_limit`]: rates that a move may not exceed
//! - [`outage`], [`displaced`]: planned outages, and the bookings that they displace
//! - [`restore`]: bookings read back from a store; [`config`]: limits; [`counted`]: counted bytes; [`packet`]: packet-switched reference models
//! - `plan`: searches a grant for a request; `vbls`, [`fbls`]: its disciplines; `counter_offer`: counter-offers
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;
mod blocks;
pub mod booking;
mod booking_index;
pub mod calendar;
pub mod capacity;
pub mod change;
pub mod circuit_timer;
pub mod config;
pub mod counted;
mod counter_offer;
mod cursor;
pub mod displaced;
pub mod fbls;
pub mod freed_capacity;
pub mod grant;
pub mod guard;
pub mod outage;
pub mod packet;
pub mod path;
mod plan;
pub mod rate_limit;
pub mod refusal;
pub mod request;
mod resource;
pub mod restore;
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
pub use refusal::{CounterOffer, Refusal, Rounding};
pub use request::{Detail, Need, Request, Route, Shape};
pub use resource::Owner;
pub use restore::SavedBooking;
pub use topology::{Interface, Limits, Link, LinkId, NodeId, Topology};
