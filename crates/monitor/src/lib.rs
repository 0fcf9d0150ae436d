//! Floor 3: the resource monitor of a host.
//!
//! - [`sample`]: counters of the kernel at one time
//! - [`rates`]: rates and fractions between two samples
//! - [`json`]: rates as a JSON object; [`history`]: rates in an `SQLite` file

pub mod history;
pub mod json;
pub mod rates;
pub mod sample;
