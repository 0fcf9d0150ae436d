//! Devices that a program speaks for: it reads one JSON object and writes one.
//!
//! - [`config`]: which program; [`driver`]: the driver, and what is said; [`answer`]: what is answered
//! - `program`: running a program that may hang

pub mod answer;
pub mod config;
pub mod driver;

mod program;

pub use answer::Answer;
pub use driver::Exec;
