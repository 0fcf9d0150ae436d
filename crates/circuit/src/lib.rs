//! Floor 3: circuits, from the reservation to the device that keeps them.
//!
//! - [`reservation`]: the life of a promise, as NSI has it, and what a journal keeps of it
//! - [`circuit`]: what a device is to keep; [`flow`]: which packets it takes
//! - [`driver`]: what makes one device keep circuits; [`linux`]: an interface of this host; [`exec`]: any program;
//!   [`sim`]: one that is not there
//! - [`controller`]: what is due when, as a machine; [`agent`]: the threads that do it
//! - [`error`]: what goes wrong

pub mod agent;
pub mod circuit;
pub mod controller;
pub mod driver;
pub mod error;
pub mod exec;
pub mod flow;
pub mod linux;
pub mod reservation;
pub mod sim_device;
