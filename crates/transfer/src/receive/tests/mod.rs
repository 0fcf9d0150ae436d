//! Tests of the receiving side as a whole: copies between two folders of this process.
//!
//! - `bench`: makes the copies
//! - `judge`: lists as the receiver answers them, which `judged` plays; `dry_run`: where it changes nothing
mod bench;
mod dry_run;
mod judge;
mod judged;
