//! `lighthaul doctor`.
//!
//! - [`run`]: checks up to an established session; `path`: checks over the session; `report`: a line for each check

pub(crate) mod run;

mod path;
mod report;
