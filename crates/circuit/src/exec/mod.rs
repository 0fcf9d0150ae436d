//! Devices that a program speaks for: it reads one JSON object and writes one.
//!
//! - [`driver`]: the driver, and what is said
//! - `program`: running a program that may hang

pub mod driver;

mod program;

pub use driver::Exec;
