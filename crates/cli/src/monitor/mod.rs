//! `lighthaul monitor`.
//!
//! - `history`: storing samples, and printing stored ones
//! - [`run`]: one sample per interval; `terminal`: full-screen mode and keys

pub(crate) mod run;

mod history;
mod terminal;
