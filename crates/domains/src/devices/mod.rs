//! Devices of a domain, which enforce the rates of its circuits.
//!
//! - [`contract`]: the interface; [`parallel`]: a thread for each interface; `late_driver`: drivers that are opened later
//! - `driven`: rates of reservations, in the order in which devices may set them; `wanted`: one of them; `asked`: those
//!   whose changes are not made yet; `change_fault`: failed changes
//! - `interfaces`: drivers of `lighthaul-circuit`, and what their devices have; `cleaning`: circuits from before the
//!   start; `inspections`: circuits that devices have lost;
//!   `closed_circuits`: circuits that have ended, and are removed later; `guard_times`: capacity that may still be in use after a decrease; `segment_circuit`: circuits of pairs of
//!   ports
//! - `shared_link`: links that several circuits share; `link_book`: their capacity; `old_use`: their use by circuits from
//!   before the start

mod asked;
mod change_fault;
mod cleaning;
mod closed_circuits;
pub mod contract;
mod driven;
mod guard_times;
mod inspections;
mod interfaces;
mod late_driver;
mod link_book;
mod old_use;
pub mod parallel;
mod segment_circuit;
mod shared_link;
mod wanted;

pub use contract::{Carried, DeviceFault, Devices};
pub(crate) use late_driver::LateDriver;
pub use parallel::ParallelDevices;
pub use segment_circuit::SegmentCircuit;
pub use shared_link::SharedLink;

#[cfg(test)]
pub(crate) mod tests;
