//! Messages to the user on standard error, each at most once per process.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Message, and true once it was printed.
#[derive(Debug)]
pub(crate) struct Complaint(AtomicBool);

impl Complaint {
    /// Returns a message that was not printed yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Prints the message, unless it was printed before.
    pub(crate) fn tell(&self, text: impl Display) {
        if !self.0.swap(true, Ordering::Relaxed) {
            let line = format!("lighthaul wrap: {text}\n");
            // a program may have closed standard error
            io::stderr().write_all(line.as_bytes()).ok();
        }
    }
}
