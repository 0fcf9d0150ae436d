//! Driver for interfaces of this host, by the kernel's HTB over rtnetlink.
//!
//! The socket is opened with `rustix`. The crates for rtnetlink do not support HTB, which needs a dozen attributes.
//!
//! - [`shaper`]: the driver
//! - [`tc_object`]: traffic-control objects of an interface
//! - `filter`: BPF program that selects the packets of a circuit
//! - `htb`: classes and their rates
//! - `netlink`: requests to the kernel, encoded by `lighthaul_kernel::tc_message`

pub mod shaper;
pub mod tc_object;

mod filter;
mod htb;
mod netlink;

pub use shaper::Shaper;
