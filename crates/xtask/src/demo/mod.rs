//! A real tree over a long path, by `lighthaul cp` and by the kernel's TCP.
//!
//! - [`show`]: the whole of it; [`tree`]: what is copied
//! - [`copy`]: by Lighthaul; [`tcp`]: by iperf3; [`table`]: what came of it
mod copy;
mod show;
mod table;
mod tcp;
mod tree;

pub(crate) use copy::key;
pub(crate) use show::{Folder, Running, release, run, run_in};
