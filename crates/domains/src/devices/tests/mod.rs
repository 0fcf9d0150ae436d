//! Tests of devices that play whole paths.
//!
//! - `changes`: rates in order, and after faults; `granted`: random paths of a calendar; `restarts`: circuits from before a start; `inspections`: circuits that a device
//!   loses; `route_moves`: rates that move to other routes; `stuck`: capacity that does not become free;
//!   `batches`: changes of one time; `unanswered`: devices that do not answer; `carried`: rates that are shown
//! - `example`: reservations, changes and interfaces for all tests of devices

mod batches;
mod carried;
mod changes;
pub(crate) mod example;
mod granted;
mod inspections;
mod restarts;
mod route_moves;
mod stuck;
mod unanswered;
