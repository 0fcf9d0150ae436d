//! How many streams are used: a few at first, and twice as many as long as that brings more.

use core::time::Duration;

use lighthaul_base::{Instant, Rate};

/// Widens while the rate grows. Plain numbers in, a number of streams out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    streams: u16,
    least: u16,
    most: u16,
    interval: Duration,
    phase: Phase,
    /// What half as many streams brought; zero if none did before.
    before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Streams that are new get going.
    Settling(Option<Instant>),
    /// Bytes are counted from then on; the last came then.
    Measuring(Instant, u64, Instant),
    /// More brought nothing; it is looked at again then.
    Resting(Instant),
}

impl Width {
    /// A few streams at first, of `most`, over a path of this round-trip time.
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

    /// This many streams for good.
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

    /// Streams to use now.
    pub const fn streams(&self) -> u16 {
        self.streams
    }

    /// Hears that streams have taken `bytes` more.
    pub fn handle_sent(&mut self, now: Instant, bytes: u32) {
        self.phase = match self.phase {
            _ if self.streams == self.most && self.before == 0 => return,
            Phase::Settling(None) => Phase::Settling(Some(now + self.interval)),
            Phase::Settling(Some(till)) | Phase::Resting(till) if now >= till => {
                Phase::Measuring(now, 0, now)
            }
            Phase::Settling(_) | Phase::Resting(_) => return,
            // there was nothing to send for a while, which says nothing of the path
            Phase::Measuring(_, _, last) if now.since(last) > self.interval / 2 => {
                Phase::Measuring(now, 0, now)
            }
            Phase::Measuring(from, sum, _) if now.since(from) < self.interval => {
                Phase::Measuring(from, sum + u64::from(bytes), now)
            }
            Phase::Measuring(from, sum, _) => self.judge(now, Rate::of(sum, now.since(from))),
        };
    }

    /// Draws the conclusion from the rate that came of this many streams.
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

/// How many streams are used at first, but over a short path, which one fills.
const FIRST: u16 = 4;
/// A round trip of less is a short path.
pub const NEAR: Duration = Duration::from_millis(2);
/// Twice as many streams must bring a part of this more.
const GAIN: u64 = 8;
/// How long streams get to get going, and how long is measured then.
const ROUND_TRIPS: u32 = 4;
const INTERVAL_MIN: Duration = Duration::from_millis(250);
/// How many intervals until more streams are tried again.
const RESTS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const TICK: Duration = Duration::from_millis(1);

    /// How many streams are used after `millis` in which so many carry `rate(streams)` bits a second.
    fn after(width: &mut Width, now: &mut Instant, millis: u64, rate: impl Fn(u16) -> u64) -> u16 {
        for _ in 0..millis {
            *now += TICK;
            let bytes = rate(width.streams()) / 8000;
            width.handle_sent(*now, bytes as u32);
        }
        width.streams()
    }

    #[test]
    fn it_widens_as_long_as_that_brings_more() {
        let mut now = Instant::ZERO;
        let mut width = Width::measured(32, RTT);
        assert_eq!(width.streams(), 4);
        let each = |streams| u64::from(streams) * 5_000_000;
        assert_eq!(after(&mut width, &mut now, 900, each), 8);
        assert_eq!(after(&mut width, &mut now, 5000, each), 32);
        assert_eq!(after(&mut width, &mut now, 60_000, each), 32);
    }

    #[test]
    fn over_a_short_path_it_begins_with_one_and_goes_back_to_it() {
        let mut now = Instant::ZERO;
        let mut width = Width::measured(32, Duration::from_micros(200));
        assert_eq!(width.streams(), 1);
        assert_eq!(after(&mut width, &mut now, 600, |_| 9_000_000_000), 2);
        assert_eq!(after(&mut width, &mut now, 1000, |_| 9_000_000_000), 1);
        let each = |streams| u64::from(streams) * 1_000_000_000;
        assert_eq!(after(&mut width, &mut now, 20_000, each), 32);
    }

    #[test]
    fn it_goes_back_to_what_brought_as_much_and_looks_again_later() {
        let mut now = Instant::ZERO;
        let mut width = Width::measured(32, RTT);
        let full = |streams: u16| (u64::from(streams) * 30_000_000).min(200_000_000);
        assert_eq!(after(&mut width, &mut now, 6000, full), 8);
        let each = |streams| u64::from(streams) * 30_000_000;
        assert_eq!(after(&mut width, &mut now, 20_000, each), 32);
    }

    #[test]
    fn a_pause_says_nothing_of_the_path() {
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
    fn what_somebody_said_stays() {
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
