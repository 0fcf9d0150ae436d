//! The rules of the house that a machine can check.
//!
//! - [`check`]: all of them; [`sources`]: the files they read; [`fault`]: what they find
//! - [`floors`]: which crate may use which; [`maps`]: `lib.rs` and `mod.rs` define nothing
//! - [`sizes`], [`names`], [`words`]: files that swell, names that say nothing, banned synonyms
//! - [`prose`]: sentences that a newcomer has to read twice
//! - [`links`]: where documents point; [`fuzz`]: files without a fuzz target that decode, as [`decoder`] sees them
//! - [`skips`]: tests that are skipped past the one mechanism
mod check;
mod decoder;
mod fault;
mod floors;
mod fuzz;
mod links;
mod maps;
mod names;
mod prose;
mod sizes;
mod skips;
mod sources;
mod words;

pub(crate) use check::run;
