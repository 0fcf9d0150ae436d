//! Interface of congestion controls.

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::reno::Reno;
use super::sample::Sample;

/// Congestion control of one sender.
#[derive(Debug)]
pub(super) enum Control {
    Reno(Reno),
    Cubic(Cubic),
    Bbr(Bbr),
}

impl Control {
    /// Adapts to an acknowledgment.
    pub(super) fn handle_ack(&mut self, sample: &Sample) {
        match self {
            Self::Reno(reno) => reno.handle_ack(sample),
            Self::Cubic(cubic) => cubic.handle_ack(sample),
            Self::Bbr(bbr) => bbr.handle_ack(sample),
        }
    }

    /// Begins a recovery: the first loss of a window.
    pub(super) fn begin_recovery(&mut self, sample: &Sample) {
        match self {
            Self::Reno(reno) => reno.reduce(),
            Self::Cubic(cubic) => cubic.reduce(),
            Self::Bbr(bbr) => bbr.begin_recovery(sample),
        }
    }

    /// Ends a recovery.
    pub(super) fn end_recovery(&mut self) {
        match self {
            Self::Reno(_) | Self::Cubic(_) => {}
            Self::Bbr(bbr) => bbr.end_recovery(),
        }
    }

    /// Starts again after a timeout without any arrival.
    pub(super) fn handle_timeout(&mut self) {
        match self {
            Self::Reno(reno) => reno.handle_timeout(),
            Self::Cubic(cubic) => cubic.handle_timeout(),
            Self::Bbr(bbr) => bbr.handle_timeout(),
        }
    }

    /// Returns the congestion window in packets.
    pub(super) fn window(&self) -> u32 {
        match self {
            Self::Reno(reno) => reno.window(),
            Self::Cubic(cubic) => cubic.window(),
            Self::Bbr(bbr) => bbr.window(),
        }
    }

    /// Returns the pace of the sender in packets a second, if it paces.
    pub(super) fn pace(&self) -> Option<f64> {
        match self {
            Self::Reno(_) | Self::Cubic(_) => None,
            Self::Bbr(bbr) => Some(bbr.pace()),
        }
    }
}
