//! `lighthaul gateway`.
pub(crate) mod args;
mod cluster;
pub(crate) mod run;
