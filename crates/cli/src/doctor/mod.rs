//! `lighthaul doctor`.
//!
//! - [`args`]: its grammar; [`run`]: the steps up to a session; [`path`]: what a session then finds
//! - [`report`]: a line for each step

pub(crate) mod args;
pub(crate) mod run;

mod path;
mod report;
