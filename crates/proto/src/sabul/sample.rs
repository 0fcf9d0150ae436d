//! Observations of a path, to which rate control adapts.

use core::time::Duration;

/// Statistics of a SYN interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Packets sent.
    pub sent: u64,
    /// Packets newly reported as lost.
    pub lost: u64,
    /// True if the sender was limited by something other than the rate, so the path may not sustain a higher rate.
    pub is_limited_elsewhere: bool,
    /// Round-trip time.
    pub rtt: Duration,
}

/// Loss reported by the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Last packet of the lost range.
    pub number: u64,
    /// First packet that was never sent.
    pub next: u64,
    /// Round-trip time.
    pub rtt: Duration,
}
