//! Driver for interfaces of this host, by the kernel's HTB over rtnetlink.
//!
//! The socket is opened with `rustix`. The crates for rtnetlink do not support HTB, which needs a dozen attributes.
//!
//! - [`shaper`]: the driver
//! - [`tc_object`]: traffic-control objects of an interface
//! - `filter`: BPF program that selects the packets of a circuit
//! - `netlink`: requests to the kernel, encoded by `lighthaul_kernel::tc_message` and `lighthaul_kernel::htb`

pub mod shaper;
pub mod tc_object;

mod filter;
mod netlink;

pub use shaper::Shaper;
