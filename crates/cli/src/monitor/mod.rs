//! `lighthaul monitor`.
//!
//! - [`run`]: one sample per interval; `row`: rates as a line of a table
//! - `frame`: rates as lines of the live screen; `terminal`: full-screen mode and keys

pub(crate) mod run;

mod frame;
mod row;
mod terminal;
