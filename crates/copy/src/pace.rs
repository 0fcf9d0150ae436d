//! Rate and remaining time of a copy, smoothed so that a reader can follow them.
//!
//! `Pace` receives the bytes of each interval. The rate is an exponential mean over about 10 s,
//! corrected for its start at zero. The remaining time counts down with the clock, and follows new
//! estimates within about 5 s. Samples of one second are the bars of the graph, in eighths of the
//! highest. Rates are in bytes per second.

use std::collections::VecDeque;
use std::time::Duration;

use crate::watch::CopyProgress;

/// Time constant of the average rate, in seconds.
const RATE_TIME: f64 = 10.0;
/// Time constant of the remaining time, in seconds.
const LEFT_TIME: f64 = 5.0;
/// Duration of each sample, in seconds.
const SAMPLE: f64 = 1.0;
/// Number of samples that are kept.
pub const SAMPLES_MAX: usize = 12;

/// Rate and remaining time of a copy.
#[derive(Debug, Default)]
pub struct Pace {
    /// Bytes a second, before the correction for a short time.
    average: f64,
    /// Seconds so far.
    elapsed: f64,
    left: Option<f64>,
    /// Bytes a second, of the last seconds.
    samples: VecDeque<f64>,
    /// Bytes and seconds of the sample that has not ended.
    open: (f64, f64),
}

impl Pace {
    /// Adds the `bytes` that moved in the duration `since`, with the `progress` at its end.
    pub fn add(&mut self, bytes: u64, since: Duration, progress: &CopyProgress) {
        let (bytes, since) = (bytes as f64, since.as_secs_f64());
        if since <= 0.0 {
            return;
        }
        self.elapsed += since;
        let weight = 1.0 - (-since / RATE_TIME).exp();
        self.average += (bytes / since - self.average) * weight;
        self.sample(bytes, since);
        let left = progress.total.saturating_sub(progress.done) as f64;
        let rate = self.rate();
        let estimate = left / rate;
        self.left = match self.left {
            _ if rate < 1.0 => None,
            None => Some(estimate),
            Some(shown) => {
                let shown = (shown - since).max(0.0);
                let weight = 1.0 - (-since / LEFT_TIME).exp();
                Some(shown + (estimate - shown) * weight)
            }
        };
    }

    /// Returns the average rate of the last seconds, in bytes a second.
    pub fn rate(&self) -> f64 {
        // the average began at zero
        let weight = 1.0 - (-self.elapsed / RATE_TIME).exp();
        if weight > 0.0 {
            self.average / weight
        } else {
            0.0
        }
    }

    /// Returns the remaining seconds, if known.
    pub const fn left(&self) -> Option<f64> {
        self.left
    }

    /// Returns the rates of the last seconds, each in eighths of the highest.
    pub fn eighths(&self) -> Vec<u8> {
        let most = self.samples.iter().copied().fold(1.0, f64::max);
        let eighth = |rate: &f64| whole((rate / most * 8.0).round()) as u8;
        self.samples.iter().map(eighth).collect()
    }

    fn sample(&mut self, bytes: f64, since: f64) {
        self.open = (self.open.0 + bytes, self.open.1 + since);
        if self.open.1 >= SAMPLE {
            self.samples.push_back(self.open.0 / self.open.1);
            self.open = (0.0, 0.0);
        }
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }
}

/// Returns the whole part of a number that is not negative.
#[expect(clippy::cast_sign_loss, reason = "it is not negative")]
pub const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(200);

    /// Remaining times of a copy of 1 GB that moves `bytes` in each tick.
    fn left_over(ticks: u32, bytes: impl Fn(u32) -> u64) -> Vec<f64> {
        let mut pace = Pace::default();
        let mut progress = CopyProgress {
            total: 1_000_000_000,
            ..CopyProgress::default()
        };
        let step = |tick| {
            progress.done += bytes(tick);
            pace.add(bytes(tick), TICK, &progress);
            pace.left().unwrap()
        };
        (0..ticks).map(step).collect()
    }

    #[test]
    fn remaining_time_decreases_steadily_at_a_constant_rate() {
        let left = left_over(100, |_| 2_000_000);
        assert!((left[0] - 99.8).abs() < 0.1, "{left:?}");
        for pair in left.windows(2) {
            assert!((pair[0] - pair[1] - 0.2).abs() < 1e-6, "{pair:?}");
        }
    }

    #[test]
    fn remaining_time_is_smooth_when_the_rate_jumps() {
        // half a second at three times the rate of the next
        let left = left_over(400, |tick| if tick % 5 < 2 { 3_000_000 } else { 1_000_000 });
        for pair in left[50..].windows(2) {
            let step = pair[0] - pair[1];
            assert!((-0.2..=0.8).contains(&step), "{pair:?}");
        }
    }

    #[test]
    fn stalled_copy_has_no_remaining_time() {
        let mut pace = Pace::default();
        let progress = CopyProgress {
            total: 100,
            ..CopyProgress::default()
        };
        pace.add(0, TICK, &progress);
        assert_eq!(pace.left(), None);
        assert_eq!(pace.rate().to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn rate_history_has_one_value_a_second() {
        let mut pace = Pace::default();
        let progress = CopyProgress::default();
        for tick in 0..100 {
            pace.add(if tick < 95 { 4 } else { 1 }, TICK, &progress);
        }
        let eighths = pace.eighths();
        assert_eq!(eighths, [[8; 11].as_slice(), &[2]].concat());
    }
}
