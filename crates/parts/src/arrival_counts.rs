//! Counts of the datagrams that a receiver got.

/// Counts of the datagrams that a receiver got, by their fate. A new packet is counted as a datagram only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalCounts {
    /// Datagrams received, valid or not.
    pub datagrams: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Messages that were ignored as invalid, with messages of the stream.
    pub ignored: u64,
}
