//! `cargo xtask gateways`: comparison of gateways with direct connections, on equal paths of the
//! lab.
//!
//! - [`args`]: command line; [`site`]: two edges and two gateways; [`path`]: the path between them;
//!   [`way`]: routes of streams
//! - [`iperf`]: streams of iperf3; [`gridftp`]: streams of `GridFTP`; [`course`]: goodput over time
//! - [`keys`]: round-trip times of octets; [`brief`]: many short connections
//! - [`measure`]: all measurements; [`table`]: results
mod args;
mod brief;
mod course;
mod gridftp;
mod iperf;
mod keys;
mod measure;
mod path;
mod site;
mod table;
mod way;

pub(crate) use self::measure::main;
