//! `lighthaul gateway`.
//!
//! - [`run`]: options as settings; [`settings`]: settings of the service
//! - `service`: starting, draining and stopping; `listeners`: listeners for programs; `link_keeper`: the link to the other gateway
//! - `booker`: reservations for the link; `cluster`: gateways that share one channel
//! - `status_socket`: the status socket; `status`: `lighthaul gateway status`

pub(crate) mod run;
pub(crate) mod settings;

mod booker;
mod cluster;
mod link_keeper;
mod listeners;
mod service;
mod status;
mod status_socket;
