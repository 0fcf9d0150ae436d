//! Floor 5: copies of files, from the list of entries to the result of each.
//!
//! - [`message`]: messages of a copy; [`delta_message`]: those of deltas; [`send`], [`receive`]: the two roles
//! - `thread_group`: threads of a copy; `monitor`: counters and events; [`budget`]: limits of one
//!   copy;
//!   `failures`: failed entries with reasons
//! - [`relay`]: messages about a copy between two other hosts
//! - [`watch`]: events for an observer
//! - `work`: steps of one side, counted; `stall`: end of a copy in which neither side works

pub mod budget;
pub mod delta_message;
pub mod message;
pub mod receive;
pub mod relay;
pub mod send;
pub mod watch;

mod failures;
mod monitor;
mod stall;
mod thread_group;
mod work;
