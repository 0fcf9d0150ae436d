//! Pacing along a TRC vector, so that the circuit's policer accepts every datagram.
//!
//! The profile is the policer's token bucket, simulated by the sender. The vector fills it, every datagram takes from
//! it, and it holds one burst. It begins empty, so the sent data is never ahead of the vector. If the sender has data
//! and the driver polls in time, it is never behind by more than a train. Step boundaries need no special action. A
//! late driver loses what does not fit in the burst, since a policer does not allow catching up.

use core::time::Duration;

use lighthaul_base::{Instant, Rate, Trc};

use super::TRAIN_BYTES_MAX;

/// Pacer of one sender on a circuit: it decides when datagrams may leave.
#[derive(Clone, Debug)]
pub struct Profile {
    trc: Trc,
    share: (u32, u32),
    burst: Option<u32>,
    datagram_bytes: u32,
    /// Time of the latest refill.
    seen: Instant,
    /// Time before which the profile stays closed.
    due: Instant,
    /// Tokens in units of 10^-9 bit.
    tokens: u128,
    /// Tokens that may leave before the profile closes again; zero while it is closed.
    open: u128,
    step: StepState,
}

/// Parameters that hold until the next boundary of the vector.
#[derive(Clone, Copy, Debug)]
struct StepState {
    /// This sender's share of the step's rate; `None` in a gap.
    rate: Option<Rate>,
    till: Instant,
    /// Capacity of the bucket, in tokens.
    burst: u128,
    /// Tokens at which the profile opens, at least one datagram.
    quantum: u128,
}

impl Profile {
    /// Follows `share` (a fraction) of `trc` with datagrams of at most `datagram_bytes`. The bucket holds `burst`
    /// bytes, by default 1 ms of the step's rate and at least two datagrams. Panics if `burst` is less than a
    /// datagram.
    pub fn new(
        now: Instant,
        trc: Trc,
        burst: Option<u32>,
        share: (u32, u32),
        datagram_bytes: u32,
    ) -> Self {
        assert!(datagram_bytes > 0, "datagram_bytes must not be zero");
        assert!(
            burst.is_none_or(|burst| burst >= datagram_bytes),
            "a burst must hold one datagram"
        );
        let mut profile = Self {
            trc,
            share,
            burst,
            datagram_bytes,
            seen: now,
            due: now,
            tokens: 0,
            open: 0,
            step: StepState {
                rate: None,
                till: now,
                burst: 0,
                quantum: 0,
            },
        };
        profile.step = profile.state_at(now);
        profile.close();
        profile
    }

    /// Returns true if a datagram of `bytes` may be sent now, and takes its tokens.
    ///
    /// After `false` the train has ended, and the answer stays `false` until [`Profile::due`].
    #[inline]
    pub fn may_send(&mut self, now: Instant, bytes: u32) -> bool {
        assert!(
            bytes <= self.datagram_bytes,
            "the datagram exceeds datagram_bytes"
        );
        if now < self.due {
            return false;
        }
        self.refill(now);
        let work = u128::from(bytes) * WORK;
        if self.open < work {
            self.open = self.batch();
        }
        if self.tokens.min(self.open) < work || self.step.rate.is_none() {
            self.close();
            return false;
        }
        self.tokens -= work;
        self.open -= work;
        true
    }

    /// Returns the time at which the next train may leave, or [`Instant::NEVER`] after the end of the vector.
    #[inline]
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// Returns the rate at the time of the latest refill, or `None` in a gap.
    #[inline]
    pub const fn rate(&self) -> Option<Rate> {
        self.step.rate
    }

    /// Returns the end of the vector.
    pub fn end(&self) -> Instant {
        self.trc.end()
    }

    /// True if the circuit carries nothing from `from` on, for the time of `rtt` and at least a millisecond.
    pub fn is_idle(&self, from: Instant, rtt: Duration) -> bool {
        self.trc.work_between(from, from + rtt.max(BURST_TIME)) == 0
    }

    /// Returns the time that `bytes` take at the present rate, or `None` in a gap.
    pub fn time_for(&self, bytes: u64) -> Option<Duration> {
        self.step.rate.map(|rate| rate.time_for(bytes))
    }

    fn refill(&mut self, now: Instant) {
        while now >= self.step.till && self.step.till < Instant::NEVER {
            self.earn(self.step.till);
            self.step = self.state_at(self.step.till);
            // tokens beyond the burst of the new step are lost; a gap has no burst at all
            self.tokens = self.tokens.min(self.step.burst);
        }
        self.earn(now);
    }

    fn earn(&mut self, now: Instant) {
        if let Some(rate) = self.step.rate.filter(|_| now > self.seen) {
            let earned = now.since(self.seen).as_nanos() * u128::from(rate.as_bps());
            self.tokens = (self.tokens + earned).min(self.step.burst);
        }
        self.seen = self.seen.max(now);
    }

    /// Returns the parameters that hold at `at`.
    fn state_at(&self, at: Instant) -> StepState {
        match self.trc.step_at(at) {
            Some(step) if step.from <= at => {
                let rate = step.rate.scaled(self.share.0, self.share.1);
                let datagram = u64::from(self.datagram_bytes);
                let by_time = rate.bytes_in(BURST_TIME).max(2 * datagram);
                let burst = self.burst.map_or(by_time, u64::from);
                let quantum = quantum(burst).max(datagram);
                StepState {
                    rate: Some(rate),
                    till: step.till,
                    burst: u128::from(burst) * WORK,
                    quantum: u128::from(quantum) * WORK,
                }
            }
            next => StepState {
                rate: None,
                till: next.map_or(Instant::NEVER, |step| step.from),
                burst: 0,
                quantum: 0,
            },
        }
    }

    /// Returns the tokens that may leave at once: whole trains if the quantum holds any, or all tokens at the end of
    /// a step.
    fn batch(&self) -> u128 {
        let train = u128::from(TRAIN_BYTES_MAX) * WORK;
        if self.step.quantum < train || self.seen >= self.step.till - FLUSH_TIME {
            return self.tokens;
        }
        self.tokens - self.tokens % train
    }

    /// Closes the profile until the bucket holds a quantum, or until the next boundary.
    fn close(&mut self) {
        self.open = 0;
        let Some(rate) = self.step.rate else {
            self.due = self.step.till;
            return;
        };
        let missing = self.step.quantum.saturating_sub(self.tokens);
        let wait = missing.div_ceil(u128::from(rate.as_bps()));
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        // data that does not fill a train by then still leaves within its step
        let last = self.step.till - FLUSH_TIME;
        let till = if self.seen < last {
            last
        } else {
            self.step.till
        };
        self.due = (self.seen + wait).min(till);
    }
}

/// Returns the bytes at which the profile opens. For a burst of several trains it is a third of the burst, in whole
/// trains; otherwise half a burst. The rest of the bucket makes up for a driver that is slightly late.
fn quantum(burst: u64) -> u64 {
    if burst >= 4 * TRAIN_BYTES_MAX {
        burst / 3 / TRAIN_BYTES_MAX * TRAIN_BYTES_MAX
    } else {
        burst.min(TRAIN_BYTES_MAX) / 2
    }
}

/// Tokens per byte: 8 bits in units of 10^-9 bit.
const WORK: u128 = 8_000_000_000;
/// Time before a boundary at which the profile opens for an incomplete train.
const FLUSH_TIME: Duration = Duration::from_micros(50);
/// Default burst, as time at the rate.
const BURST_TIME: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn train(profile: &mut Profile, now: Instant, bytes: u32) -> u64 {
        let mut sent = 0;
        while profile.may_send(now, bytes) {
            sent += u64::from(bytes);
        }
        sent
    }

    /// Sends whenever the profile is due until the vector ends. Returns each time and the total sent by then.
    fn follow(profile: &mut Profile, bytes: u32) -> Vec<(Instant, u64)> {
        let (mut now, mut total, mut sent) = (Instant::ZERO, 0, Vec::new());
        while now < Instant::NEVER {
            total += train(profile, now, bytes);
            sent.push((now, total));
            assert!(profile.due() > now, "the next due time must be later");
            now = profile.due();
        }
        sent
    }

    #[test]
    fn step_boundaries_are_kept_within_a_millisecond() {
        let trc: Trc =
            "1ms-200ms 400Mb/s, 200ms-500ms 900Mb/s, 600ms-700ms 100Mb/s, 700ms-710ms 10Gb/s"
                .parse()
                .unwrap();
        let mut profile = Profile::new(Instant::ZERO, trc.clone(), None, (1, 1), 1500);
        let sent = follow(&mut profile, 1500);
        for step in trc.steps() {
            let before = sent.iter().rfind(|(now, _)| *now < step.from);
            let before = before.map_or(0, |(_, total)| *total);
            for (now, total) in sent
                .iter()
                .filter(|(now, _)| (step.from..=step.till).contains(now))
            {
                let (sent, ahead) = (total - before, trc.bytes_between(step.from, *now));
                // the bucket may still hold tokens of the previous step
                let most = ahead + step.rate.bytes_in(BURST_TIME).max(3000);
                assert!(sent <= most, "{now}: {sent} bytes, ahead of {ahead}");
                let late = trc.bytes_between(step.from, *now - Duration::from_millis(1));
                assert!(
                    sent + 1500 >= late,
                    "{now}: {sent} bytes, {late} a millisecond ago"
                );
            }
        }
        let carried = trc.bytes_between(trc.start(), trc.end());
        let (_, total) = sent[sent.len() - 1];
        assert!(
            total <= carried && total > carried - 100_000,
            "{total} of {carried} bytes"
        );
    }

    #[test]
    fn shares_divide_the_rate() {
        let trc: Trc = "0s-1s 900Mb/s".parse().unwrap();
        let shares = [(1, 3), (2, 3)].map(|share| {
            let mut profile = Profile::new(Instant::ZERO, trc.clone(), None, share, 1500);
            follow(&mut profile, 1500)
                .last()
                .map_or(0, |(_, total)| *total)
        });
        assert!(shares[0].abs_diff(37_500_000) < 64_000, "{shares:?}");
        assert!(shares[1].abs_diff(75_000_000) < 64_000, "{shares:?}");
    }

    proptest! {
        #[test]
        fn policer_accepts_all_datagrams_of_a_late_driver(
            steps in prop::collection::vec((0_u64..3_000, 1_u64..3_000, 1_u64..5_000), 1..6),
            burst in prop::option::of(1_500_u32..300_000),
            waits in prop::collection::vec(0_u64..2_000_000, 1..200),
        ) {
            let mut now = 0;
            let steps = steps.into_iter().map(|(gap, len, mbps)| {
                let from = now + gap * 1000;
                now = from + len * 1000;
                lighthaul_base::trc::Step {
                    from: Instant::from_nanos(from), till: Instant::from_nanos(now), rate: Rate::from_mbps(mbps),
                }
            });
            let trc = Trc::new(steps.collect()).unwrap();
            let mut profile = Profile::new(Instant::ZERO, trc.clone(), burst, (1, 1), 1500);
            let (mut now, mut sent) = (Instant::ZERO, Vec::new());
            for wait in waits {
                now = now.max(profile.due().min(now + Duration::from_millis(1))) + Duration::from_nanos(wait);
                let bytes = train(&mut profile, now, 1500);
                prop_assert!(bytes == 0 || trc.rate_at(now).is_some(), "no datagram may be sent in a gap");
                sent.push((now, bytes));
            }
            for first in 0..sent.len() {
                let mut total = 0;
                for (at, bytes) in &sent[first..] {
                    total += bytes;
                    let most = burst.map_or_else(
                        || trc.steps().iter().map(|step| step.rate.bytes_in(BURST_TIME).max(3000)).max().unwrap_or(0),
                        u64::from,
                    );
                    prop_assert!(total <= trc.bytes_between(sent[first].0, *at) + most + 1);
                }
            }
        }
    }
}
