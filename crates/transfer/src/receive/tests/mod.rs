//! Tests of the receiving side as a whole: copies between two folders of this process.
//!
//! - `bench`: makes the copies
//! - `judge`: lists as the receiver answers them, which `judged` plays; `dry_run`: where it changes nothing
//! - `panics`: copies in which a part of the program panics
//! - `publish`: files that have arrived, published on the `stage` or refused
//! - `resume`: large files of which an earlier run left a part
//! - `temp_files`: files as they are made, and held ranges as they are compared
mod bench;
mod dry_run;
mod judge;
mod judged;
mod panics;
mod publish;
mod resume;
mod stage;
mod temp_files;
