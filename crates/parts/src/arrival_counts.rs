//! Counts of the datagrams that a receiver got.

/// Counts of the datagrams that a receiver got, by what became of them. A new packet is counted as a datagram only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalCounts {
    /// Datagrams received, valid or not.
    pub datagrams: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Messages that were ignored as invalid, those of the stream included.
    pub ignored: u64,
}
