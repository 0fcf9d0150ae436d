//! Discrete-event simulator for protocol state machines, in virtual time (floor 2). A seed determines the whole run.
//!
//! - [`link`]: one direction of a path, in virtual time here and in real time in the lab
//! - [`host`]: a receiving host of limited speed
//! - [`processor`]: the processor of such a host, scheduled as by Linux 2.6
//! - [`event_queue`]: the queue of future events
//! - [`network`]: many [`flow`]s over shared links, each along its [`route`]; [`simulation`]: a network of one flow
//! - [`trace`]: goodput of each flow over time
//! - [`ledger`]: proof that every byte was placed once and at its own offset
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod event_queue;
pub mod flow;
pub mod host;
pub mod ledger;
pub mod link;
pub mod mixed;
pub mod network;
pub mod processor;
pub mod route;
pub mod simulation;
pub mod trace;

mod machine;

pub use event_queue::EventQueue;
pub use flow::{Flow, FlowConfig, FlowEvent};
pub use host::{Host, HostConfig};
pub use ledger::Ledger;
pub use link::{
    BurstLoss, Count, Counters, DropReason, Link, LinkConfig, Policer, Reorder, Verdict,
};
pub use mixed::Mixed;
pub use network::Network;
pub use processor::{Predictions, Processor};
pub use route::RouteConfig;
pub use simulation::{PathConfig, Simulation};
pub use trace::Trace;
