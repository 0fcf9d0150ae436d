//! Test rig for power cuts: a block device that forgets what was not flushed.
//!
//! ```text
//! program -> ext4, xfs, btrfs -> loop device -> FUSE file -> Recording
//! ```
//!
//! The device records every write and every flush. Afterwards a cut is made at any place of the recording:
//! what was written before the last flush is there, of the rest any subset. The image that is left is mounted,
//! so that a test can look at what a program finds after the power came back.
//!
//! - [`image`]: the content of a device; [`recording`]: its writes and flushes, and cuts; [`device`]: both
//!   behind a lock, with faults
//! - [`rig`]: the device as a file in FUSE, and file systems on it; [`filesystem`]: which ones
//! - [`sandbox`]: namespaces in which all of this happens, and with which it vanishes
//! - [`trial`]: one program, recorded once and cut many times; [`scenarios`]: which ones

mod server;

pub mod device;
pub mod filesystem;
pub mod image;
pub mod recording;
pub mod rig;
pub mod sandbox;
pub mod scenarios;
pub mod trial;
