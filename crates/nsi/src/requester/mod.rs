//! Requester: leases a circuit from a provider.
//!
//! - [`client`]: requests, and their confirmations; [`inbox`]: confirmations that arrive; `earlier`: leases of
//!   an earlier run
//! - [`lease`]: circuit that is leased, and why there is none; [`link`]: its capacity for a scheduler; [`link_gate`]: when
//!   the link offers it

pub mod client;
mod earlier;
pub mod inbox;
pub mod lease;
pub mod link;
pub mod link_gate;
#[cfg(test)]
mod tests;

pub use client::{Requester, RequesterConfig};
pub use earlier::{Earlier, Useless};
pub use inbox::Inbox;
pub use lease::{Lease, LeaseError, Step};
pub use link_gate::{GateStep, LinkGate};
