//! CUBIC (RFC 9438), with the slow start of `HyStart` that Linux uses.

use core::time::Duration;

use lighthaul_base::Instant;

use super::sample::{Sample, WINDOW_INITIAL};

/// State of the control. Windows are in packets.
#[derive(Debug)]
pub(super) struct Cubic {
    window: f64,
    /// Window at which slow start ends.
    threshold: f64,
    /// Window before the latest reduction.
    before: f64,
    /// Start of the growth after a reduction, with the time and the window of its plateau.
    epoch: Option<Epoch>,
    start: SlowStart,
    rtt_min: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    since: Instant,
    plateau_seconds: f64,
    plateau: f64,
    /// Window that Reno would have.
    reno: f64,
}

/// Search for the first growth of the delay, round by round.
#[derive(Debug)]
struct SlowStart {
    round_ends: u64,
    rtt_least: Duration,
    samples: u32,
}

impl Cubic {
    pub(super) const fn new() -> Self {
        Self {
            window: WINDOW_INITIAL,
            threshold: f64::MAX,
            before: 0.0,
            epoch: None,
            start: SlowStart {
                round_ends: 0,
                rtt_least: Duration::MAX,
                samples: 0,
            },
            rtt_min: Duration::MAX,
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "a window is positive")]
    pub(super) const fn window(&self) -> u32 {
        self.window as u32
    }

    pub(super) fn handle_ack(&mut self, sample: &Sample) {
        self.rtt_min = self.rtt_min.min(sample.rtt);
        let is_used = f64::from(sample.in_flight + sample.acked + 1) >= self.window / 2.0;
        if sample.is_recovering || !is_used {
            return;
        }
        if self.window < self.threshold {
            self.window += f64::from(sample.acked);
            if self.start.is_over(sample, self.rtt_min) {
                self.threshold = self.window;
            }
            return;
        }
        self.grow(sample);
    }

    /// Grows along the cubic function (RFC 9438, section 4).
    fn grow(&mut self, sample: &Sample) {
        let (window, before) = (self.window, self.before);
        let epoch = self.epoch.get_or_insert_with(|| {
            let plateau = before.max(window);
            Epoch {
                since: sample.now,
                plateau_seconds: libm::cbrt((plateau - window) / SCALE),
                plateau,
                reno: window,
            }
        });
        let acked = f64::from(sample.acked);
        epoch.reno += RENO_STEP * acked / window;
        let ahead = sample.now.since(epoch.since) + self.rtt_min;
        let seconds = ahead.as_secs_f64() - epoch.plateau_seconds;
        let cubic = epoch.plateau + SCALE * seconds * seconds * seconds;
        let target = cubic.max(epoch.reno).min(window * GROWTH_MAX);
        if target > window {
            self.window += (target - window) / window * acked;
        }
    }

    /// Reduces the window after a loss (sections 4.6 and 4.7).
    pub(super) fn reduce(&mut self) {
        self.before = if self.window < self.before {
            self.window * f64::midpoint(1.0, REDUCTION)
        } else {
            self.window
        };
        self.window = (self.window * REDUCTION).max(WINDOW_MIN);
        self.threshold = self.window;
        self.epoch = None;
    }

    pub(super) fn handle_timeout(&mut self) {
        self.reduce();
        self.window = 1.0;
    }
}

impl SlowStart {
    /// Returns true when the round-trip time of a round has grown.
    fn is_over(&mut self, sample: &Sample, rtt_min: Duration) -> bool {
        if sample.delivered_before >= self.round_ends {
            self.round_ends = sample.delivered + u64::from(sample.in_flight);
            (self.rtt_least, self.samples) = (Duration::MAX, 0);
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            self.rtt_least = self.rtt_least.min(sample.rtt);
            return false;
        }
        self.rtt_least > rtt_min + (rtt_min / 8).clamp(GROWTH_LEAST, GROWTH_MOST)
    }
}

/// Scale of the cubic function (RFC 9438, section 5).
const SCALE: f64 = 0.4;
/// Factor of a reduction of the window (RFC 9438, section 5).
const REDUCTION: f64 = 0.7;
/// Growth of Reno with that reduction, in packets for each window.
const RENO_STEP: f64 = 3.0 * (1.0 - REDUCTION) / (1.0 + REDUCTION);
/// Largest growth within a round trip.
const GROWTH_MAX: f64 = 1.5;
const WINDOW_MIN: f64 = 2.0;
/// Number of samples in a round.
const SAMPLES: u32 = 8;
/// Minimum of the growth of the delay that ends slow start.
const GROWTH_LEAST: Duration = Duration::from_millis(4);
/// Maximum of the growth of the delay that ends slow start.
const GROWTH_MOST: Duration = Duration::from_millis(16);
