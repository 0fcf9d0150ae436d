//! Interfaces of this host, shaped by the kernel's HTB over rtnetlink.
//!
//! `rustix`, which the house has anyway, opens the socket; the crates for rtnetlink have no HTB, and the dozen
//! attributes that it takes are fewer lines than such a crate is packages.
//!
//! - [`shaper`]: the driver
//! - [`dump`]: what the kernel says of an interface
//! - `program`: which packets belong to a circuit, as the kernel's filter reads it
//! - `htb`: classes and their rates, as the kernel has them
//! - `netlink`: asking the kernel; `message`: how questions and answers are written

pub mod shaper;
pub mod tc_object;

mod filter;
mod htb;
mod message;
mod netlink;

pub use shaper::Shaper;
