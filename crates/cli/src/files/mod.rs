//! `lighthaul ls`, `du`, `stat`, `rm` and `mkdir`.
//!
//! - [`run`]: requests to this host or another; `show`: output of entries; `usage`: sums of sizes

pub(crate) mod run;

mod show;
mod usage;
