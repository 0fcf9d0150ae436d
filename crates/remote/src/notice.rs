//! Lines on standard error.

use std::io::{Write, stderr};

use lighthaul_base::escape::{LINE_MAX, escape};

/// Prints one line on standard error. Text of a peer in it is escaped, so it cannot control the terminal or begin a new
/// line.
pub fn say(text: &str) {
    writeln!(stderr(), "{}", escape(text, LINE_MAX)).ok();
}
