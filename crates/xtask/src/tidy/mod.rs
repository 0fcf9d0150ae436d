//! `cargo xtask tidy`: checks of the project's rules.
//!
//! - [`check`]: all rules; [`sources`]: files to check; [`fault`]: results
//! - [`floors`]: dependencies of crates; [`maps`]: `lib.rs` and `mod.rs` define no items
//! - [`sizes`]: long files; [`names`]: empty names; [`words`]: banned synonyms
//! - [`prose`]: wording of comments and help; [`links`]: targets of links; [`fuzz`]: fuzz targets of decoders, which [`decoder`] detects
//! - [`skips`]: skipped tests that are not recorded
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
