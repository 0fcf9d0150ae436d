//! `lighthaul gateway`.
pub(crate) mod args;
pub(crate) mod run;
