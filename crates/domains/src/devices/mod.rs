//! Devices of a domain, which enforce the rates of its circuits.
//!
//! - [`contract`]: the interface; [`parallel`]: a thread for each interface
//! - `driven`: devices behind the drivers of `lighthaul-circuit`; `guard_times`: capacity that may still be in use
//!   after a decrease; `link_book`: capacity of links that several interfaces share; `wanted`: rates of reservations
//! - [`recording`]: devices that only record their calls, for tests

pub mod contract;
mod driven;
mod guard_times;
mod link_book;
pub mod parallel;
pub mod recording;
mod wanted;

pub use contract::{DeviceFault, Devices};
pub use driven::SegmentCircuit;
pub use link_book::SharedLink;
pub use parallel::ParallelDevices;
pub use recording::{Recorded, RecordingDevices};

#[cfg(test)]
pub(crate) mod example;
#[cfg(test)]
mod tests;
