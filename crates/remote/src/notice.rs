//! Lines on standard error.

use std::io::{Write, stderr};

use lighthaul_base::escape::{LINE_MAX, escape};

/// Says one line on standard error. What a peer wrote into it cannot move the terminal or begin another line.
pub fn say(text: &str) {
    writeln!(stderr(), "{}", escape(text, LINE_MAX)).ok();
}
