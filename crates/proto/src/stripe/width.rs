//! Number of streams in use: it starts low and doubles while that raises the throughput.
//!
//! A [`Width`] learns from the bytes that the streams take, and decides at the end of an interval:
//!
//! ```text
//! Settling -> Measuring -- gain of 1/8 --> twice the streams, Settling
//!                       -- less ---------> half of them, Resting (20 intervals), Measuring
//! ```
//!
//! An interval is four round trips, and 250 ms at least. It opens no connections; its user follows
//! [`Width::streams`].

use core::time::Duration;

use lighthaul_base::{Instant, Rate};

/// Controller of the number of streams, without I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    streams: u16,
    least: u16,
    most: u16,
    interval: Duration,
    phase: Phase,
    /// Rate with half as many streams; zero if that was not measured.
    before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// New streams ramp up until the given time.
    Settling(Option<Instant>),
    /// Bytes are counted. The fields are the start, the bytes, and the time of the latest bytes.
    Measuring(Instant, u64, Instant),
    /// A doubling brought no gain. The next attempt is at the given time.
    Resting(Instant),
}

impl Width {
    /// Starts with few streams, of at most `most`, on a path of round-trip time `rtt`.
    pub fn measured(most: u16, rtt: Duration) -> Self {
        let least = if rtt < NEAR { 1 } else { FIRST };
        Self {
            streams: least.min(most),
            least,
            most,
            interval: (rtt * ROUND_TRIPS).max(INTERVAL_MIN),
            phase: Phase::Settling(None),
            before: 0,
        }
    }

    /// Uses `streams` permanently.
    pub const fn fixed(streams: u16) -> Self {
        Self {
            streams,
            least: streams,
            most: streams,
            interval: INTERVAL_MIN,
            phase: Phase::Settling(None),
            before: 0,
        }
    }

    /// Returns the number of streams to use now.
    pub const fn streams(&self) -> u16 {
        self.streams
    }

    /// Counts `bytes` that the streams have taken.
    pub fn handle_sent(&mut self, now: Instant, bytes: u32) {
        self.phase = match self.phase {
            _ if self.streams == self.most && self.before == 0 => return,
            Phase::Settling(None) => Phase::Settling(Some(now + self.interval)),
            Phase::Settling(Some(till)) | Phase::Resting(till) if now >= till => {
                Phase::Measuring(now, 0, now)
            }
            Phase::Settling(_) | Phase::Resting(_) => return,
            // a pause in the data says nothing about the path, so start again
            Phase::Measuring(_, _, last) if now.since(last) > self.interval / 2 => {
                Phase::Measuring(now, 0, now)
            }
            Phase::Measuring(from, sum, _) if now.since(from) < self.interval => {
                Phase::Measuring(from, sum + u64::from(bytes), now)
            }
            Phase::Measuring(from, sum, _) => self.judge(now, Rate::of(sum, now.since(from))),
        };
    }

    /// Decides on the number of streams from the measured rate.
    fn judge(&mut self, now: Instant, rate: Rate) -> Phase {
        let rate = rate.as_bps();
        let gained = rate > self.before.saturating_add(self.before / GAIN);
        if gained && self.streams < self.most {
            self.before = rate;
            self.streams = (self.streams * 2).min(self.most);
            return Phase::Settling(Some(now + self.interval));
        }
        if !gained {
            self.streams = (self.streams / 2).max(self.least).min(self.most);
        }
        self.before = 0;
        Phase::Resting(now + self.interval * RESTS)
    }
}

/// Initial number of streams, except on a short path, which one stream fills.
const FIRST: u16 = 4;
/// Round-trip time below which a path counts as short.
pub const NEAR: Duration = Duration::from_millis(2);
/// A doubling must raise the rate by this fraction (1/8).
const GAIN: u64 = 8;
/// Length of an interval in round trips. A ramp-up and a measurement take one interval each.
const ROUND_TRIPS: u32 = 4;
/// Minimum length of an interval.
const INTERVAL_MIN: Duration = Duration::from_millis(250);
/// Number of intervals until the next attempt to double.
const RESTS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const TICK: Duration = Duration::from_millis(1);

    /// Returns the number of streams in use after `millis` during which `n` streams carry `rate(n)` bits per second.
    fn after(width: &mut Width, now: &mut Instant, millis: u64, rate: impl Fn(u16) -> u64) -> u16 {
        for _ in 0..millis {
            *now += TICK;
            let bytes = rate(width.streams()) / 8000;
            width.handle_sent(*now, bytes as u32);
        }
        width.streams()
    }

    #[test]
    fn width_doubles_while_throughput_rises() {
        let mut now = Instant::ZERO;
        let mut width = Width::measured(32, RTT);
        assert_eq!(width.streams(), 4);
        let each = |streams| u64::from(streams) * 5_000_000;
        assert_eq!(after(&mut width, &mut now, 900, each), 8);
        assert_eq!(after(&mut width, &mut now, 5000, each), 32);
        assert_eq!(after(&mut width, &mut now, 60_000, each), 32);
    }

    #[test]
    fn short_path_starts_with_and_returns_to_a_single_stream() {
        let mut now = Instant::ZERO;
        let mut width = Width::measured(32, Duration::from_micros(200));
        assert_eq!(width.streams(), 1);
        assert_eq!(after(&mut width, &mut now, 600, |_| 9_000_000_000), 2);
        assert_eq!(after(&mut width, &mut now, 1000, |_| 9_000_000_000), 1);
        let each = |streams| u64::from(streams) * 1_000_000_000;
        assert_eq!(after(&mut width, &mut now, 20_000, each), 32);
    }

    #[test]
    fn width_halves_without_gain_and_retries_later() {
        let mut now = Instant::ZERO;
        let mut width = Width::measured(32, RTT);
        let full = |streams: u16| (u64::from(streams) * 30_000_000).min(200_000_000);
        assert_eq!(after(&mut width, &mut now, 6000, full), 8);
        let each = |streams| u64::from(streams) * 30_000_000;
        assert_eq!(after(&mut width, &mut now, 20_000, each), 32);
    }

    #[test]
    fn pause_in_data_is_not_measured() {
        let mut now = Instant::ZERO;
        let mut width = Width::measured(32, RTT);
        let each = |streams| u64::from(streams) * 5_000_000;
        for _ in 0..100 {
            after(&mut width, &mut now, 100, each);
            now += Duration::from_secs(10);
        }
        assert_eq!(width.streams(), 4);
    }

    #[test]
    fn fixed_width_never_changes() {
        let mut now = Instant::ZERO;
        for (mut width, streams) in [
            (Width::fixed(7), 7),
            (Width::measured(1, RTT), 1),
            (Width::measured(0, RTT), 0),
        ] {
            let each = |streams| u64::from(streams) * 5_000_000;
            assert_eq!(after(&mut width, &mut now, 5000, each), streams);
        }
    }
}
