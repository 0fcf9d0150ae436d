//! Topology files.
//!
//! - [`mod@file`]: reads a file; [`toml`]: the native format; [`graphml`]: the format of the
//!   Internet Topology Zoo

pub mod file;
pub mod graphml;
pub mod toml;
