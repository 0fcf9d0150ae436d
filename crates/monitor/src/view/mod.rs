//! Rates and paths as text: [`frame`] for the live screen, [`row`] for the lines of a table, [`path`] for probes.

pub mod frame;
pub mod path;
pub mod row;
