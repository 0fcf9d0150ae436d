//! `cargo xtask gateways`: comparison of gateways with direct connections, on equal paths of the
//! lab.
//!
//! - [`args`]: command line; [`site`]: two edges and two gateways; [`path`]: the path between them;
//!   [`route`]: routes of streams
//! - [`iperf`]: streams of iperf3; [`gridftp`]: streams of `GridFTP`; [`goodput_curve`]: goodput over time
//! - [`keys`]: round-trip times of octets; [`short_connections`]: many short connections
//! - [`measure`]: all measurements; [`table`]: results
mod args;
mod goodput_curve;
mod gridftp;
mod iperf;
mod keys;
mod measure;
mod path;
mod route;
mod short_connections;
mod site;
mod table;

pub(crate) use self::measure::main;
