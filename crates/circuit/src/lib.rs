//! Circuits: rates of flows for a time, and the devices that enforce them.
//!
//! - [`circuit`]: packets and rates that a device enforces; [`flow`]: packets of a circuit
//! - [`driver`]: interface to one device; [`linux`]: an interface of this host; [`exec`]: a program for any device;
//!   [`tl1`]: a switch that speaks TL1; [`sim_device`]: a simulated device
//! - [`controller`]: schedule of one device as a machine, with its [`event`]s; [`agent`]: one thread for each device
//! - `controlled_circuit`: one circuit of a controller; `switched_controller`: controller that is disabled while another
//!   program controls its device
//! - [`conformance`]: the suite that every driver passes
//! - [`error`]: faults of circuits

pub mod agent;
pub mod circuit;
pub mod conformance;
mod controlled_circuit;
pub mod controller;
pub mod driver;
pub mod error;
pub mod event;
pub mod exec;
pub mod flow;
pub mod linux;
pub mod sim_device;
mod switched_controller;
pub mod tl1;
