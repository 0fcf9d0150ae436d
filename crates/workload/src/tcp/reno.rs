//! Reno (RFC 5681), with the fast recovery of the sender.

use super::sample::{Sample, WINDOW_INITIAL};

/// State of the control. Windows are in packets.
#[derive(Debug)]
pub(super) struct Reno {
    window: f64,
    /// Window at which slow start ends.
    threshold: f64,
}

impl Reno {
    pub(super) const fn new() -> Self {
        Self {
            window: WINDOW_INITIAL,
            threshold: f64::MAX,
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "a window is positive")]
    pub(super) const fn window(&self) -> u32 {
        self.window as u32
    }

    pub(super) fn handle_ack(&mut self, sample: &Sample) {
        let acked = f64::from(sample.acked);
        let is_used = f64::from(sample.in_flight) + acked + 1.0 >= self.window / 2.0;
        if sample.is_recovering || !is_used {
            return;
        }
        if self.window < self.threshold {
            self.window += acked;
        } else {
            self.window += acked / self.window;
        }
    }

    /// Halves the window after a loss.
    pub(super) const fn reduce(&mut self) {
        self.window = (self.window / 2.0).max(WINDOW_MIN);
        self.threshold = self.window;
    }

    pub(super) const fn handle_timeout(&mut self) {
        self.reduce();
        self.window = 1.0;
    }
}

const WINDOW_MIN: f64 = 2.0;
