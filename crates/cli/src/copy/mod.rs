//! `lighthaul cp`.
//!
//! - [`run`]: the command; `transfer`: one attempt; `retry`: further attempts after network failures
//! - `options`, `changes`: options as both sides agree on them; `confirm`: the question before `--delete`; `failures`: the list of failures
//! - `circuit`: copies on a reserved circuit; `lightpath`: on a path across domains; `vector`: at the rates of both; `endpoints`: both hosts of a copy; `estimate`: the bytes that it will send
//! - `third_party`: copies between two other hosts; `gateway`: copies through a gateway
//! - `printer`: output while files move, with `attempts` before the present one; `summary`: output at the end
//! - `plan`: what a dry run would do

pub(crate) mod run;

#[path = "../../../lighthaul/src/copy/attempts.rs"]
mod attempts;
mod changes;
#[path = "../../../lighthaul/src/copy/circuit.rs"]
mod circuit;
mod confirm;
#[path = "../../../lighthaul/src/copy/endpoints.rs"]
mod endpoints;
#[path = "../../../lighthaul/src/copy/estimate.rs"]
mod estimate;
mod failures;
#[path = "../../../lighthaul/src/copy/gateway.rs"]
mod gateway;
#[path = "../../../lighthaul/src/copy/lightpath.rs"]
mod lightpath;
mod options;
mod plan;
mod printer;
mod progress;
#[path = "../../../lighthaul/src/copy/retry.rs"]
mod retry;
mod summary;
#[path = "../../../lighthaul/src/copy/third_party.rs"]
mod third_party;
#[path = "../../../lighthaul/src/copy/transfer.rs"]
mod transfer;
#[path = "../../../lighthaul/src/copy/vector.rs"]
mod vector;
