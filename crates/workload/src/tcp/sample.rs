//! Measurement that congestion controls use.

use core::time::Duration;

use lighthaul_base::Instant;

/// Observation at an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) now: Instant,
    /// Number of packets acknowledged now.
    pub(super) acked: u32,
    /// Number of packets found lost.
    pub(super) lost: u32,
    pub(super) rtt: Duration,
    /// Packets a second over the last round trip.
    pub(super) packets_per_second: f64,
    /// Number of packets acknowledged in total.
    pub(super) delivered: u64,
    /// Number of packets acknowledged before the latest one was sent.
    pub(super) delivered_before: u64,
    pub(super) in_flight: u32,
    pub(super) is_recovering: bool,
}

/// Initial window in packets (RFC 6928).
pub(super) const WINDOW_INITIAL: f64 = 10.0;
