//! Floor 2: the virtual world, where a year of transfers passes in a minute, the same for each
//! seed.
//!
//! - [`link`]: one direction of a path, in virtual time here and in real time in the lab
//! - [`host`]: an end system that absorbs only so much
//! - [`scheduler`]: who has that one's processor, after Linux 2.6
//! - [`world`]: what is yet to happen
//! - [`network`]: many [`flow`]s over shared links, each by its [`route`]; [`drive`]: two machines and the
//!   world between them
//! - [`trace`]: what each flow got, over time
//! - [`ledger`]: every byte placed once, and where it belongs
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod drive;
pub mod flow;
pub mod host;
pub mod ledger;
pub mod link;
pub mod network;
pub mod route;
pub mod scheduler;
pub mod trace;
pub mod world;

mod seat;

pub use drive::{Heard, World, WorldConfig};
pub use flow::{Flow, FlowConfig};
pub use host::{Host, HostConfig};
pub use ledger::Ledger;
pub use link::{Burst, Count, Counters, Link, LinkConfig, Reason, Reorder, Verdict};
pub use network::Network;
pub use route::RouteConfig;
pub use scheduler::Scheduler;
pub use trace::Trace;
pub use world::Agenda;
