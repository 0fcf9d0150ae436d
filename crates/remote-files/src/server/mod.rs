//! Server of remote files: executes the requests of a client in a directory.
//!
//! - [`serve`]: a session with its threads; [`shared`]: state of all threads, with the rights of the client
//! - `connection`: requests of one connection; `answers`: its stream; `jobs`: requests that take longer
//! - `folder`: listing, renaming, removing; `writer`: files that are written

pub mod serve;
pub mod shared;

mod answers;
mod connection;
mod folder;
mod jobs;
mod writer;
