//! Configuration of the kernel's packet filter and routes, which all programs of a namespace share.
//!
//! - [`tools`]: the programs that configure the kernel; [`namespace_lock`]: exclusive use; [`error`]: faults

pub mod error;
pub mod namespace_lock;
pub mod tools;
