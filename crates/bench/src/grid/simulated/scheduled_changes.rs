//! Changes of a path and of a receiving host while a transfer runs.

use std::time::Duration;

use lighthaul_sim::{HostConfig, LinkConfig};

/// Change at a time after the start of the transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) after: Duration,
    pub(crate) what: Changed,
}

/// Changed part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Changed {
    /// The link has the given parameters from this time on.
    Link(LinkConfig),
    /// The receiving host has the given parameters from this time on.
    #[cfg_attr(not(test), expect(dead_code, reason = "bad days are tests"))]
    Host(HostConfig),
}
