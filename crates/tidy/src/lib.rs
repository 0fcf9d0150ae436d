//! Floor 0: `cargo xtask tidy`, checks of the project's rules.
//!
//! - `check`: all rules; `sources`: files to check; `fault`: results
//! - `floors`: dependencies of crates; `circles`: files that use each other; `maps`: `lib.rs` and `mod.rs` define no
//!   items
//! - `modules`: modules of a crate; `code`: names in a file; `tokens`: tokens of code
//! - `sizes`: long files and crates; `fields`: structs with many fields; `names`: empty names; `words`: banned synonyms
//! - `prose`: wording of comments, help and messages; `phrases`: literals and cells of tables; `text_format`: formats
//!   of files with text
//! - `links`: targets of links; `fuzz`: fuzz targets of decoders, which `decoder` detects
//! - `skips`: skipped tests that are not recorded; `glossary`: number of terms
//! - `mutants`: lists of mutation testing
#![expect(clippy::print_stdout, reason = "a task prints its results")]
#![expect(clippy::print_stderr, reason = "a task prints its results")]

mod check;
mod circles;
mod code;
mod decoder;
mod doc_tests;
mod fault;
mod fields;
mod floors;
mod fuzz;
mod glossary;
mod links;
mod maps;
mod modules;
mod mutants;
mod names;
mod phrases;
mod prose;
mod sizes;
mod skips;
mod sources;
mod text_format;
mod tokens;
mod words;

pub use check::run;
