//! Floor 1: formats of the Linux kernel, encoded and decoded without a socket or a device.
//!
//! - [`tc_message`]: messages about traffic control
//! - [`segment`]: packets of TUN devices

pub mod segment;
pub mod tc_message;
