//! Periodic probes of known paths, for monitors.
//!
//! - [`target`]: daemons to probe; [`schedule`]: which one is due, within a budget of bytes
//! - [`prober`]: threads that probe, and their results

pub mod prober;
pub mod schedule;
pub mod target;
