//! `lighthaul monitor`.
//!
//! - [`run`]: one sample per interval; `row`: rates as a line of a table

pub(crate) mod run;

mod row;
