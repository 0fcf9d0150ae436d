//! Copies that several pairs of hosts make together: striping over hosts, as in `GridFTP`.
//!
//! ```text
//! plan (dry run) --> work queue --> movers, one for each pair of hosts --> publication
//! ```
//!
//! - [`run`]: the whole copy; `parts`: its parts as copies of their own; `plan`: files to move
//! - `work_queue`: files and ranges that wait for a mover; `movers`: their threads
//!
//! Each part is an ordinary copy. Movers only stage files, so that a mover that fails costs time and nothing else. The
//! last part compares both sides again, publishes what is staged, and copies what is missing.

pub(crate) mod run;

mod movers;
mod parts;
mod plan;
mod work_queue;
