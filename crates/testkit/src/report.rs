//! Numbers that a test measured.

use std::fmt::Display;
use std::io::{self, Write};
use std::thread;

/// Writes `numbers` with the test's name to standard error, which the test harness does not capture.
///
/// # Panics
///
/// Panics if they cannot be written.
pub fn report(numbers: impl Display) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("test");
    // at once, so that lines of parallel tests do not mix
    io::stderr()
        .write_all(format!("{test}: {numbers}\n").as_bytes())
        .unwrap_or_else(|error| panic!("cannot write what was measured: {error}"));
}
