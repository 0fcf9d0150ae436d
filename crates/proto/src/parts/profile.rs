//! Follows a TRC vector: when the next datagrams may leave, so that the circuit's policer takes them all.
//!
//! It is the policer's own token bucket seen from the sender. What the vector carries fills it and every datagram is
//! taken from it; it holds one burst, and begins empty. So what has left is never ahead of the vector, and, while
//! there is something to send and the world comes in time, never behind it by more than a train: a step's
//! boundary needs no action to be kept. A world that is late loses what does not fit in the burst: a policer
//! takes no catching up.

use core::time::Duration;

use lighthaul_base::{Instant, Rate, Trc};

use super::TRAIN_BYTES_MAX;

/// Plain numbers in, due times out.
#[derive(Clone, Debug)]
pub struct Profile {
    trc: Trc,
    share: (u32, u32),
    burst: Option<u32>,
    datagram_bytes: u32,
    /// The last moment time was told.
    seen: Instant,
    /// The gate is closed before this moment.
    due: Instant,
    /// In bits times nanoseconds of a second.
    tokens: u128,
    /// What may leave before the gate closes again, as work; nothing while it is closed.
    open: u128,
    now: Hold,
}

/// What holds from the moment it was looked up until the next boundary.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// This sender's share of the step's rate; nothing in a gap.
    rate: Option<Rate>,
    till: Instant,
    /// What the bucket holds, as work.
    burst: u128,
    /// What opens the gate, and at least one datagram; as work.
    quantum: u128,
}

impl Profile {
    /// Follows `share` (a fraction) of `trc` with datagrams of at most `datagram_bytes`; a burst has `burst` bytes, by
    /// default 1 ms of the step's rate and at least two datagrams.
    pub fn new(
        now: Instant,
        trc: Trc,
        burst: Option<u32>,
        share: (u32, u32),
        datagram_bytes: u32,
    ) -> Self {
        assert!(datagram_bytes > 0, "a datagram costs something");
        assert!(
            burst.is_none_or(|burst| burst >= datagram_bytes),
            "a policer lets a datagram pass"
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
            now: Hold {
                rate: None,
                till: now,
                burst: 0,
                quantum: 0,
            },
        };
        profile.now = profile.hold(now);
        profile.close();
        profile
    }

    /// Whether a datagram of `bytes` may leave now; if so, it has left.
    ///
    /// After a `false` the train has ended and the answer is `false` until [`Profile::due`].
    pub fn may_send(&mut self, now: Instant, bytes: u32) -> bool {
        assert!(
            bytes <= self.datagram_bytes,
            "datagrams have a largest size"
        );
        if now < self.due {
            return false;
        }
        self.refill(now);
        let work = u128::from(bytes) * WORK;
        if self.open < work {
            self.open = self.batch();
        }
        if self.tokens.min(self.open) < work || self.now.rate.is_none() {
            self.close();
            return false;
        }
        self.tokens -= work;
        self.open -= work;
        true
    }

    /// When the next train may leave; [`Instant::NEVER`] when nothing of the vector is left.
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// What may be sent at the last moment it was told; nothing in a gap.
    pub const fn rate(&self) -> Option<Rate> {
        self.now.rate
    }

    /// The first moment after the vector.
    pub fn end(&self) -> Instant {
        self.trc.end()
    }

    /// Whether the circuit carries nothing for an `rtt`, and at least a millisecond, from `from` on.
    pub fn is_idle(&self, from: Instant, rtt: Duration) -> bool {
        self.trc.work_between(from, from + rtt.max(BURST_TIME)) == 0
    }

    /// How long so many bytes take at the present rate; nothing in a gap.
    pub fn time_for(&self, bytes: u64) -> Option<Duration> {
        self.now.rate.map(|rate| rate.time_for(bytes))
    }

    fn refill(&mut self, now: Instant) {
        while now >= self.now.till && self.now.till < Instant::NEVER {
            self.earn(self.now.till);
            self.now = self.hold(self.now.till);
            // what a step has left over is not the next one's, if that takes less at once; after a gap nothing is left
            self.tokens = self.tokens.min(self.now.burst);
        }
        self.earn(now);
    }

    fn earn(&mut self, now: Instant) {
        if let Some(rate) = self.now.rate.filter(|_| now > self.seen) {
            let earned = now.since(self.seen).as_nanos() * u128::from(rate.as_bps());
            self.tokens = (self.tokens + earned).min(self.now.burst);
        }
        self.seen = self.seen.max(now);
    }

    /// What holds at `at`.
    fn hold(&self, at: Instant) -> Hold {
        match self.trc.step_at(at) {
            Some(step) if step.from <= at => {
                let rate = step.rate.scaled(self.share.0, self.share.1);
                let datagram = u64::from(self.datagram_bytes);
                let by_time = rate.bytes_in(BURST_TIME).max(2 * datagram);
                let burst = self.burst.map_or(by_time, u64::from);
                let quantum = quantum(burst).max(datagram);
                Hold {
                    rate: Some(rate),
                    till: step.till,
                    burst: u128::from(burst) * WORK,
                    quantum: u128::from(quantum) * WORK,
                }
            }
            next => Hold {
                rate: None,
                till: next.map_or(Instant::NEVER, |step| step.from),
                burst: 0,
                quantum: 0,
            },
        }
    }

    /// What may leave at once: whole trains where a quantum is made of them, and what is left where a step ends.
    fn batch(&self) -> u128 {
        let train = u128::from(TRAIN_BYTES_MAX) * WORK;
        if self.now.quantum < train || self.seen >= self.now.till - LAST_CALL {
            return self.tokens;
        }
        self.tokens - self.tokens % train
    }

    /// Closes the gate until the bucket holds a quantum, or a boundary comes.
    fn close(&mut self) {
        self.open = 0;
        let Some(rate) = self.now.rate else {
            self.due = self.now.till;
            return;
        };
        let missing = self.now.quantum.saturating_sub(self.tokens);
        let wait = missing.div_ceil(u128::from(rate.as_bps()));
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        // what does not make up a train by then still leaves in its step
        let last = self.now.till - LAST_CALL;
        let till = if self.seen < last {
            last
        } else {
            self.now.till
        };
        self.due = (self.seen + wait).min(till);
    }
}

/// What opens the gate: the trains of a third of a burst where it has several, else half of one, so that a world that is a little
/// late loses nothing.
fn quantum(burst: u64) -> u64 {
    if burst >= 4 * TRAIN_BYTES_MAX {
        burst / 3 / TRAIN_BYTES_MAX * TRAIN_BYTES_MAX
    } else {
        burst.min(TRAIN_BYTES_MAX) / 2
    }
}

/// The work of one byte: bits times nanoseconds in a second.
const WORK: u128 = 8_000_000_000;
/// How long before a boundary the gate opens for what is left.
const LAST_CALL: Duration = Duration::from_micros(50);
/// The default burst, as time at the rate.
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

    /// Sends whenever it is due until the vector ends; answers each moment and what has left in all by then.
    fn follow(profile: &mut Profile, bytes: u32) -> Vec<(Instant, u64)> {
        let (mut now, mut total, mut sent) = (Instant::ZERO, 0, Vec::new());
        while now < Instant::NEVER {
            total += train(profile, now, bytes);
            sent.push((now, total));
            assert!(profile.due() > now, "it waits for something");
            now = profile.due();
        }
        sent
    }

    #[test]
    fn boundaries_are_kept_within_a_millisecond() {
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
                // the bucket may hold some of the step before
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
    fn lanes_share_what_there_is() {
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
        fn a_policer_takes_all_however_late_the_world_is(
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
                prop_assert!(bytes == 0 || trc.rate_at(now).is_some(), "nothing leaves in a gap");
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
