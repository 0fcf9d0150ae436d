//! Devices that a program controls: it reads a JSON object and writes one.
//!
//! - [`config`]: the program; [`driver`]: the driver and its protocol; [`answer`]: answers
//! - `program`: running a program with limits

pub mod answer;
pub mod config;
pub mod driver;

mod program;

pub use answer::Answer;
pub use driver::Exec;
