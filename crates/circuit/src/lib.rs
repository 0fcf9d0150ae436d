//! Circuits: from the state of a reservation to the devices that enforce it.
//!
//! - [`reservation`]: states of a reservation as in NSI, and its journal
//! - [`circuit`]: packets and rates that a device enforces; [`flow`]: packets of a circuit
//! - [`driver`]: interface to one device; [`linux`]: an interface of this host; [`exec`]: a program for any device;
//!   [`tl1`]: a switch that speaks TL1; [`sim_device`]: a simulated device
//! - [`controller`]: schedule of one device as a machine; [`agent`]: one thread for each device
//! - `stopping`: end of waits for devices once the process has to stop
//! - [`conformance`]: the suite that every driver passes
//! - [`error`]: faults of circuits

pub mod agent;
pub mod circuit;
pub mod conformance;
pub mod controller;
pub mod driver;
pub mod error;
pub mod exec;
pub mod flow;
pub mod linux;
pub mod reservation;
pub mod sim_device;
mod stopping;
pub mod tl1;
