//! Floor 5: service that runs the signaling machine of one domain (`lighthaul-stargate`).
//!
//! ```text
//!  callers --> service thread --> store (SQLite, one transaction a turn)
//!                 |   ^     \---> device thread --> a thread for each interface
//!                 v   |
//!              lighthaul-domain-links: one link for each neighbor, TLS 1.3 with pinned keys
//! ```
//!
//! - [`config`]: the configuration file of a domain, checked
//! - [`store`]: durable records; [`devices`]: the devices, as a trait and behind drivers; `device_thread`: their rates
//!   over time
//! - [`service`]: the thread of the machine, its callers and its status
//! - [`control`]: the socket for programs of this host
//! - [`error`]: faults, in one sentence each; `priority`: of the threads
//!   that change devices; `random`: seeds and IDs

pub mod config;
pub mod control;
mod device_thread;
pub mod devices;
pub mod error;
mod priority;
mod random;
pub mod service;
pub mod store;

pub use config::DomainConfig;
pub use devices::{DeviceFault, Devices, ParallelDevices};
pub use error::Error;
pub use service::{Handle, Service, Status, Ticket};
pub use store::RecordStore;
