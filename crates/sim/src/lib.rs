//! Floor 2: the virtual world, where a year of transfers passes in a minute, the same for each
//! seed.
//!
//! - [`link`]: one direction of a path, in virtual time here and in real time in the lab
//! - [`host`]: an end system that absorbs only so much
//! - [`scheduler`]: who has that one's processor, after Linux 2.6
//! - [`world`]: what is yet to happen; [`drive`]: two machines and the world between them
//! - [`ledger`]: every byte placed once, and where it belongs
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod drive;
pub mod host;
pub mod ledger;
pub mod link;
pub mod scheduler;
pub mod world;

pub use drive::{Heard, World, WorldConfig};
pub use host::{Host, HostConfig};
pub use ledger::Ledger;
pub use link::{Burst, Count, Counters, Link, LinkConfig, Reason, Reorder, Verdict};
pub use scheduler::Scheduler;
pub use world::Agenda;
