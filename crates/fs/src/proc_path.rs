//! Paths in `/proc` of open files.

use std::os::fd::{AsFd, AsRawFd};

/// Returns the path in `/proc` that leads to an open file. Opening it makes a second open file, with
/// flags and locks of its own.
pub(crate) fn magic(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}
