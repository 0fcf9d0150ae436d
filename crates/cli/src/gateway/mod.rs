//! `lighthaul gateway`.
pub(crate) mod args;
mod board;
mod entrance;
pub(crate) mod run;
mod status;
