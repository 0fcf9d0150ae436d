//! `lighthaul ls`, `stat`, `rm` and `mkdir`.
//!
//! - [`run`]: requests to this host or another; `show`: output of entries

pub(crate) mod run;

mod show;
