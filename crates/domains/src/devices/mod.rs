//! Devices of a domain: what enforces the rates of its circuits.
//!
//! - [`contract`]: the interface; [`driven`]: devices behind the drivers of `lighthaul-circuit`
//! - [`recording`]: devices that only record their calls, for tests

pub mod contract;
pub mod driven;
pub mod recording;

pub use contract::{DeviceFault, Devices};
pub use driven::{DrivenDevices, SegmentCircuit};
pub use recording::{Recorded, RecordingDevices};
