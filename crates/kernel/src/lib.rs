//! Floor 1: formats of the Linux kernel, encoded and decoded without a socket or a device.
//!
//! - [`tc_message`]: messages about traffic control
//! - [`htb`]: queueing disciplines and classes of HTB
//! - [`segment`]: packets of TUN devices

pub mod htb;
pub mod segment;
pub mod tc_message;
