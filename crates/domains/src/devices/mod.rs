//! Devices of a domain, which enforce the rates of its circuits.
//!
//! - [`contract`]: the interface; [`parallel`]: a thread for each interface
//! - `driven`: devices behind the drivers of `lighthaul-circuit`; `cleaning`: circuits from before the start;
//!   `guard_times`: capacity that may still be in use after a decrease; `link_book`: capacity of links that several
//!   circuits share; `old_use`: use of these links by circuits from before the start; `segment_circuit`: circuits of pairs of ports; `wanted`: rates of reservations
//! - [`recording`]: devices that only record their calls, for tests

mod cleaning;
pub mod contract;
mod driven;
mod guard_times;
mod link_book;
mod old_use;
pub mod parallel;
pub mod recording;
mod segment_circuit;
mod wanted;

pub use contract::{DeviceFault, Devices};
pub use link_book::SharedLink;
pub use parallel::ParallelDevices;
pub use recording::{Recorded, RecordingDevices};
pub use segment_circuit::SegmentCircuit;

#[cfg(test)]
pub(crate) mod example;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod route_moves;
#[cfg(test)]
mod tests;
