//! `lighthaul monitor`.
//!
//! - `history`: storing samples, and printing stored ones
//! - [`run`]: one sample per interval; `row`: rates as a line of a table
//! - `frame`: rates as lines of the live screen; `terminal`: full-screen mode and keys

pub(crate) mod run;

mod frame;
mod history;
mod row;
mod terminal;
