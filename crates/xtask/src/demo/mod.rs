//! `cargo xtask demo`: copies a tree over a long path, by `lighthaul cp` and by the kernel's TCP.
//!
//! - [`show`]: the whole demonstration; [`tree`]: tree to copy
//! - [`copy`]: Lighthaul, to a [`daemon`]; [`tcp`]: iperf3; [`table`]: results
//! - [`booked`]: four copies at once, on circuits and over TCP; [`running`]: processes of the demonstration
mod booked;
mod copy;
pub(crate) mod daemon;
pub(crate) mod running;
pub(crate) mod show;
mod table;
mod tcp;
mod tree;

pub(crate) use daemon::key;
pub(crate) use running::Running;
pub(crate) use show::{Folder, release, run, run_in};
