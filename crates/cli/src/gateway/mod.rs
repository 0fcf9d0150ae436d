//! `lighthaul gateway`.
//!
//! - [`run`]: starting, draining and stopping; `entrance`: listeners for programs; `keeper`: the link to the other gateway
//! - `book`: reservations for the link; `cluster`: gateways that share one channel
//! - `board`: the status socket; `status`: `lighthaul gateway status`

pub(crate) mod run;

mod board;
mod book;
mod cluster;
mod entrance;
mod keeper;
mod status;
