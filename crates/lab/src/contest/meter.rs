//! Meter of a flow's bytes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bytes that a flow has carried, and the signal to end the flow.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: AtomicU64,
    is_over: AtomicBool,
}

impl Meter {
    /// Sets the total of bytes received.
    pub(crate) fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }

    /// Adds bytes received.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns the total of bytes received.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Signals the flow to end.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Reports whether the flow must end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }
}
