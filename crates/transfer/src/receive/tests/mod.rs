//! Tests of the receiving side: copies between two folders in this process.
//!
//! - `bench`: copies
//! - `judge`: lists of entries, handled by `judged`; `dry_run`: lists in a dry run
//! - `panics`: copies in which a part of the program panics
//! - `publish`: received files, published or rejected by the publisher in `stage`
//! - `resume`: large files that an earlier run has left unfinished
//! - `temp_files`: temporary files, and comparison of held ranges
mod bench;
mod dry_run;
mod judge;
mod judged;
mod panics;
mod publish;
mod resume;
mod stage;
mod temp_files;
