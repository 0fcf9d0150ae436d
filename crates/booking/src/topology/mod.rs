//! Which links there are, from files that people write or have.
//!
//! - [`mod@file`]: which form a file has; [`toml`]: ours; [`graphml`]: that of the Internet Topology Zoo

pub mod file;
pub mod graphml;
pub mod toml;
