//! Provider: answers requests, and reports to requesters.
//!
//! ```text
//! request -> Provider::answer -> state Checking, Committing ... in the store -> acknowledgment
//!            Provider::work   -> Resources -> state Held, Start ... in the store -> outbox
//!            Provider::deliver -> confirmation to replyTo
//! ```
//!
//! - [`state`]: the provider and its connections; `requests`: answers to requests; `work`:
//!   requests to execute, and due changes; `comparison`: connections beside reservations at the start; `queries`: answers to queries; [`delivery`]: queue of messages;
//!   `outgoing`: one of them
//! - [`config`]: settings; [`stp`]: service termination points and their labels
//! - [`resources`]: interface to the network; `connection`: one connection; `store`: table of them

mod comparison;
pub mod config;
mod connection;
pub mod delivery;
mod outgoing;
mod queries;
mod requests;
pub mod resources;
pub mod state;
mod store;
pub mod stp;
#[cfg(test)]
mod tests;
mod work;

pub use config::{Config, ConfigError};
pub use outgoing::Outgoing;
pub use resources::{Circuit, Committed, Hold, Port, Refusal, Resources, Status};
pub use state::{OpenError, Provider, Reply};
