//! Floor 5: copies of files, from the list of entries to the result of each.
//!
//! - [`message`]: messages of a copy; [`send`], [`receive`]: the two roles
//! - `crew`: threads of a copy; `board`: counters and events; [`budget`]: limits of one copy;
//!   `failures`: failed entries with reasons
//! - [`vector`]: capacity of a circuit; [`ease`]: reduction of the rate when the receiving host
//!   drops datagrams
//! - [`relay`]: messages about a copy between two other hosts
//! - [`watch`]: events for an observer

pub mod budget;
pub mod ease;
pub mod message;
pub mod receive;
pub mod relay;
pub mod send;
pub mod vector;
pub mod watch;

mod board;
mod crew;
mod failures;
