//! `lighthaul ls`, `stat`, `rm` and `mkdir`.
//!
//! - [`args`]: their grammar; [`run`]: asking here or there; [`show`]: what comes of it

pub(crate) mod args;
pub(crate) mod run;

mod show;
