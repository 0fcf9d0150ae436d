//! One copy, from its request to its summary.
//!
//! - [`run`]: the copy; [`job`]: its request with the settings of the client; [`reporter`]: its events
//! - `transfer`: one attempt; `retry`: further attempts after network failures; `attempts`: the sum of all
//! - `circuit`: copies on a reserved circuit; `lightpath`: on a path across domains; `vector`: at the rates of both
//! - `endpoints`: both hosts of a booking; `estimate`: the bytes that a copy will send
//! - `striped`: copies that several pairs of hosts make together
//! - `third_party`: copies between two other hosts; `gateway`: copies through a gateway; `objects`: with object stores

pub(crate) mod job;
pub(crate) mod reporter;
pub(crate) mod retry;
pub(crate) mod run;

mod attempts;
mod circuit;
mod endpoints;
mod estimate;
mod gateway;
mod lightpath;
mod objects;
mod striped;
mod third_party;
mod transfer;
mod vector;
