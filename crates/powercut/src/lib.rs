//! Test rig for power cuts: a block device that loses writes which were not flushed.
//!
//! ```text
//! program -> ext4, xfs, btrfs -> loop device -> FUSE file -> Recording
//! ```
//!
//! The device records every write and every flush. Afterwards, a test cuts the power at any event
//! of the recording. The cut keeps the writes before the last flush, and any subset of the later
//! ones. The test mounts the resulting image and checks the files that a program finds after the
//! power failure.
//!
//! - [`image`]: content of a device; [`recording`]: writes, flushes and cuts; [`device`]: recorded
//!   device with faults
//! - [`rig`]: device as a file in FUSE, with a file system; [`filesystem`]: file systems
//! - [`sandbox`]: namespaces for all of this, which clean up after it
//! - [`trial`]: program that is recorded once and cut many times; [`scenarios`]: programs

mod server;

pub mod device;
pub mod filesystem;
pub mod image;
pub mod recording;
pub mod rig;
pub mod sandbox;
pub mod scenarios;
pub mod trial;
