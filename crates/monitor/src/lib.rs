//! Floor 4: the resource monitor of a host.
//!
//! - [`sample`]: counters of the kernel at one time
//! - [`rates`]: rates and fractions between two samples
//! - [`path`]: probes of paths to other hosts
//! - [`json`]: both as JSON objects; [`history`]: both in an `SQLite` file
//! - [`view`]: both as text; [`metrics`]: both for Prometheus; [`perfsonar`]: probes as results of perfSONAR

pub mod history;
pub mod json;
pub mod metrics;
pub mod path;
pub mod perfsonar;
pub mod rates;
pub mod sample;
pub mod view;
