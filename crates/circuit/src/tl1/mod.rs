//! Optical and SONET switches that speak TL1 over TCP: one channel is one cross-connect.
//!
//! - [`config`]: settings of a switch; [`driver`]: the driver of one interface; [`fault`]: faults of a switch
//! - [`dialect`]: commands and lists of three vendors; [`cross_connect`]: ports and cross-connects
//! - [`message`]: messages of a switch; [`command`]: messages to it
//! - `connecting`, `session`: one TCP connection; `switch`: the state of a switch over many of them
//! - `record`: the file that names the channels of each circuit

pub mod command;
pub mod config;
pub mod cross_connect;
pub mod dialect;
pub mod driver;
pub mod fault;
pub mod message;

mod connecting;
mod record;
mod session;
mod switch;

pub use config::SwitchConfig;
pub use driver::Tl1;
