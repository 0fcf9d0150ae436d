//! `lighthaul stream`.
//!
//! - [`args`]: its grammar; [`run`]: carrying one, and telling what came of it

pub(crate) mod args;
pub(crate) mod run;
