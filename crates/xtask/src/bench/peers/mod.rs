//! How each program is run: what it needs, its far side, its near side, and what it moved.
//!
//! One file for each, all of one shape; [`peer`] has the shape.

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
pub(crate) use peer::{Peer, Told};
pub(crate) use udt::compile;
