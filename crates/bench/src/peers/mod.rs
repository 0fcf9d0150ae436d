//! Programs of the bench: their requirements, commands of both sides, and results.
//!
//! Each program has a file that implements [`Peer`] of [`peer`].

mod bucket;
mod gridftp;
mod iperf3;
mod lighthaul;
mod list;
mod peer;
mod probe;
mod quinn;
mod rsync;
mod srt;
mod ssh;
mod udt;
mod xrdcp;

pub(crate) use list::all;
pub(crate) use peer::{Peer, TrialOutput};
pub(crate) use udt::compile;
