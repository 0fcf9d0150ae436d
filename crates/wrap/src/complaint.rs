//! Messages to the user on standard error, each at most once per process.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// A sentence that was told or not.
#[derive(Debug)]
pub(crate) struct Complaint(AtomicBool);

impl Complaint {
    /// Returns a sentence that was not told.
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Tells it, unless that has been done.
    pub(crate) fn tell(&self, text: impl Display) {
        if !self.0.swap(true, Ordering::Relaxed) {
            let line = format!("lighthaul wrap: {text}\n");
            // a program may have closed it
            io::stderr().write_all(line.as_bytes()).ok();
        }
    }
}
