//! `lighthaul cp`.
//!
//! - [`run`]: the command; `transfer`: one attempt; `retry`: further attempts after network failures
//! - `options`, `changes`: options as both sides agree on them; `confirm`: the question before `--delete`; `failures`: the list of failures
//! - `circuit`: copies on a reserved circuit; `lightpath`: on a path across domains; `vector`: at the rates of both; `endpoints`: both hosts of a copy; `estimate`: the bytes that it will send
//! - `third_party`: copies between two other hosts; `gateway`: copies through a gateway
//! - `printer`: output while files move, with `attempts` before the present one; `summary`: output at the end
//! - `plan`: what a dry run would do

pub(crate) mod run;

mod attempts;
mod changes;
mod circuit;
mod confirm;
mod endpoints;
mod estimate;
mod failures;
mod gateway;
mod lightpath;
mod options;
mod plan;
mod printer;
mod progress;
mod retry;
mod summary;
mod third_party;
mod transfer;
mod vector;
