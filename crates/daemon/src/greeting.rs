//! Greeting of a daemon that ssh starts: a line with its port and key on standard output.

/// First word of the greeting.
pub const GREETING: &str = "lighthaul-1";
