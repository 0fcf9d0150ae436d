//! How a host is doing.

use core::time::Duration;

use crate::Instant;

/// A sample of how one end system is doing, told to its endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes received and not yet safe on disk.
    pub backlog_bytes: u64,
    /// How many such bytes the host is willing to hold.
    pub backlog_bytes_max: u64,
    /// Bytes that wait in its socket.
    pub socket_bytes: u64,
    /// How many bytes the socket holds; zero where nobody looks.
    pub socket_bytes_max: u64,
    /// Whether others have had its processor lately.
    pub is_shared: bool,
    /// When the endpoint will have no processor, as far as that can be foreseen.
    pub absence: Option<Absence>,
}

/// A time in which others have the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Absence {
    /// When it begins.
    pub from: Instant,
    /// How long it lasts.
    pub len: Duration,
    /// How long after its beginning the next one like it begins; zero if none will.
    pub every: Duration,
}
