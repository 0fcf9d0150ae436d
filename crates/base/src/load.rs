//! Load samples of a host, which flow control uses.

use core::time::Duration;

use crate::Instant;

/// Load sample of an end system, passed to the protocol endpoint on that system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Received bytes that are not yet durable on disk.
    pub backlog_bytes: u64,
    /// Maximum for [`Load::backlog_bytes`] that the host accepts.
    pub backlog_bytes_max: u64,
    /// Bytes waiting in the socket's receive buffer.
    pub socket_bytes: u64,
    /// Capacity of the socket's receive buffer in bytes; zero if it is not measured.
    pub socket_bytes_max: u64,
    /// True if other tasks have competed for the endpoint's processor recently.
    pub is_shared: bool,
    /// Predicted next period without a processor, if one is foreseen.
    pub absence: Option<Absence>,
}

/// Period in which other tasks run on the endpoint's processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Absence {
    /// Start of the period.
    pub from: Instant,
    /// Length of the period.
    pub len: Duration,
    /// Interval from the start of this period to the start of the next; zero if the period does not repeat.
    pub every: Duration,
}
