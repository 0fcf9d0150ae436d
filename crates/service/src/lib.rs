//! Floor 9: services that run until they are stopped, from their settings.
//!
//! - [`gateway`]: a gateway with its links and listeners; `scheduler`: a scheduler with its store and circuits
//! - [`domain`]: a domain of paths across networks; [`path_offer`]: a path as the capacity of a scheduler
//! - [`metrics`]: where metrics are; [`log`]: the log of services; `traces`: its OpenTelemetry traces; `telemetry`: their client
//! - [`monitor`]: metrics of a monitor; `measurements`: the same for OpenTelemetry
//! - `error`: faults; `scheduler_fault`: those of a scheduler
#![expect(clippy::disallowed_methods, reason = "commands read variables")]

pub mod domain;
pub mod gateway;
pub mod log;
pub mod metrics;
pub mod monitor;
pub mod path_offer;
#[cfg(feature = "scheduler")]
pub mod scheduler;

mod error;
#[cfg(feature = "otel")]
mod measurements;
#[cfg(feature = "scheduler")]
mod scheduler_fault;
#[cfg(feature = "otel")]
mod telemetry;
#[cfg(feature = "otel")]
mod traces;
