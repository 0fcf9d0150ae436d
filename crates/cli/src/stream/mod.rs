//! `lighthaul stream`.
//!
//! - [`run`]: carries one stream and reports its outcome

pub(crate) mod run;
