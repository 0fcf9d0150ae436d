//! Grid of paths: `auto` beside each fixed choice of a protocol, simulated and emulated.
//!
//! - `plan`: axes and points; `point`: one path with its condition, and the choices allowed there
//! - `simulated`: transfers in virtual time; `emulated`: the same with real programs in a lab
//! - `table`: results as CSV, from which a run continues; `verdict`: distance of `auto` from the best
//! - `page`, `picture`: text and heat map; `reason`: why `auto` falls behind
//! - `run`: the command; `results`: its rows so far
//! - `contests`: shares of `auto` and TCP on shared paths, to judge a change of the rate control

mod contests;
mod emulated;
mod page;
mod picture;
mod plan;
mod point;
mod reason;
mod results;
mod run;
mod simulated;
mod table;
mod verdict;

pub(crate) use contests::run as contests;
pub(crate) use run::run;
