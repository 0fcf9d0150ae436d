//! Gateways: settings, listeners, links and their reservations.
//!
//! - [`settings`]: its settings; [`mod@run`]: starting, draining and stopping
//! - `listeners`: listeners for programs; `link_keeper`: the link to the other gateway
//! - `booker`: reservations for the link; `cluster`: gateways that share one channel
//! - `status_socket`: the status socket
pub mod run;
pub mod settings;

mod booker;
mod cluster;
mod link_keeper;
mod listeners;
mod status_socket;

pub use run::run;
pub use settings::Settings;
