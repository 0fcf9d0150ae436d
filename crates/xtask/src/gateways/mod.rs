//! Gateways beside direct connections, on the same paths of the lab: what programs get, and what it costs.
//!
//! - [`args`]: what is asked for; [`site`]: two edges, two gateways and the path between them
//! - [`iperf`]: streams of iperf3; [`gridftp`]: those of `GridFTP`; [`course`]: what either gets over time
//! - [`keys`]: single octets, there and back; [`brief`]: many short connections
//! - [`measure`]: one after another; [`table`]: what came of it
mod args;
mod brief;
mod course;
mod gridftp;
mod iperf;
mod keys;
mod measure;
mod site;
mod table;

pub(crate) use self::measure::main;
