//! A real tree over a long path, by `lighthaul cp` and by the kernel's TCP.
//!
//! - [`show`]: the whole of it; [`tree`]: what is copied
//! - [`copy`]: by Lighthaul, to a [`daemon`]; [`tcp`]: by iperf3; [`table`]: what came of it
//! - [`booked`]: four at once, on circuits and over TCP
mod booked;
mod copy;
pub(crate) mod daemon;
pub(crate) mod show;
mod table;
mod tcp;
mod tree;

pub(crate) use daemon::key;
pub(crate) use show::{Folder, Running, release, run, run_in};
