//! `lighthaul gateway`.
pub(crate) mod args;
mod board;
mod book;
mod cluster;
mod entrance;
mod keeper;
pub(crate) mod run;
mod status;
