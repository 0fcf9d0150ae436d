//! `lighthaul cp`.
//!
//! - [`run`]: the command; `transfer`: one attempt; `retry`: further attempts after network failures
//! - `options`: options as both sides agree on them; `confirm`: the question before `--delete`; `failures`: the list of failures
//! - `circuit`: copies on a reserved circuit; `ends`: both hosts of a copy; `rehearsal`: the bytes that it will send
//! - `third`: copies between two other hosts; `passage`: copies through a gateway
//! - `printer`: output while files move, with `tries` before the present one; `summary`: output at the end

pub(crate) mod run;

mod circuit;
mod confirm;
mod ends;
mod failures;
mod options;
mod passage;
mod printer;
mod rehearsal;
mod retry;
mod summary;
mod third;
mod transfer;
mod tries;
