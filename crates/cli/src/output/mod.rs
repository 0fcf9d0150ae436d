//! Output that all commands share.
//!
//! - [`mod@print`]: lines on standard output and standard error; [`name`]: names of files in them
//! - [`log`]: the log of services; `traces`: its OpenTelemetry traces

pub(crate) mod log;
pub(crate) mod name;
pub(crate) mod print;
#[cfg(feature = "otel")]
pub(crate) mod traces;
