//! How a host is doing.

/// A sample of how one end system is doing, told to its endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes received and not yet safe on disk.
    pub backlog_bytes: u64,
    /// How many such bytes the host is willing to hold.
    pub backlog_bytes_max: u64,
}
