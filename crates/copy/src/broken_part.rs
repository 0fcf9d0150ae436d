//! A part of a copy that panics on purpose, for tests.

use std::cell::Cell;

thread_local! {
    /// Part that panics in copies that this thread starts.
    pub static BROKEN: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Part of a copy that panics.
#[derive(Debug)]
pub struct BrokenPart(Option<&'static str>);

impl Default for BrokenPart {
    fn default() -> Self {
        Self(BROKEN.get())
    }
}

impl BrokenPart {
    /// Panics if the broken part has the name `name`.
    pub fn panic_in(&self, name: &str) {
        assert!(self.0 != Some(name), "broken on purpose");
    }
}
