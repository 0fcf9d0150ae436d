//! One direction of a path as a state machine: queue, rate, delay, loss, reordering, duplication.
//!
//! The simulator offers packets in virtual time and the lab's emulator in real time. The same seed gives the same
//! verdicts to both. A packet passes the queue, then the line, then random loss, extra delay and duplication. A
//! packet lost at random has used the line like any other.

use core::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};

/// Parameters of a link. The default link is perfect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Line rate; `None` is infinitely fast.
    pub rate: Option<Rate>,
    /// One-way propagation delay after the line.
    pub delay: Duration,
    /// Queue limit in bytes, including the unsent part of the packet on the line.
    pub queue_bytes_max: u64,
    /// Probability of independent packet loss, in parts per billion.
    pub loss_ppb: u64,
    /// Bursty packet loss.
    pub burst: Option<BurstLoss>,
    /// Extra delay for some packets, so that later packets overtake them.
    pub reorder: Option<Reorder>,
    /// Probability of duplication, in parts per billion.
    pub duplicate_ppb: u64,
    /// Policer in front of the queue.
    pub policer: Option<Policer>,
}

/// Token bucket that drops packets without enough tokens (RFC 2697, one color).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Rate at which tokens arrive.
    pub rate: Rate,
    /// Maximum number of bytes that pass at once.
    pub burst_bytes: u64,
}

impl LinkConfig {
    /// Link without queue limit, delay or loss.
    pub const PERFECT: Self = Self {
        rate: None,
        delay: Duration::ZERO,
        queue_bytes_max: u64::MAX,
        loss_ppb: 0,
        burst: None,
        reorder: None,
        duplicate_ppb: 0,
        policer: None,
    };
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self::PERFECT
    }
}

/// Burst loss after Gilbert and Elliott: no packet is lost in the good state and every packet in the bad state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstLoss {
    /// Probability that a packet in the good state begins a burst, in parts per billion.
    pub enter_ppb: u64,
    /// Mean length of a burst in packets, at least one.
    pub len_mean: u32,
}

/// Reordering: some packets take longer than other packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// Probability of the extra delay, in parts per billion.
    pub ppb: u64,
    /// Extra delay.
    pub extra: Duration,
}

/// Outcome for an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet is lost.
    Dropped(DropReason),
    /// The packet arrives.
    Delivered {
        /// Time at which the last bit of the packet arrives.
        at: Instant,
        /// Time at which the packet's duplicate arrives, if any.
        again: Option<Instant>,
    },
}

/// Reason for a packet loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The queue was full, or the policer had no tokens.
    Queue,
    /// Random loss on the line, alone or in a burst.
    Loss,
}

/// Number of packets, and the sum of their lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Sum of the packet lengths in bytes.
    pub bytes: u64,
}

/// Packet counters of a link. `offered` always equals `delivered + dropped_queue + dropped_loss`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered to the link.
    pub offered: Count,
    /// Packets delivered, without duplicates.
    pub delivered: Count,
    /// Packets dropped because the queue was full, or because the policer had no tokens.
    pub dropped_queue: Count,
    /// Packets lost at random on the line.
    pub dropped_loss: Count,
    /// Delivered packets with extra delay.
    pub reordered: Count,
    /// Delivered packets with a duplicate.
    pub duplicated: Count,
}

/// One direction of a path.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    rng: Rng,
    in_burst: bool,
    /// Time of the latest update of `work`.
    seen: Instant,
    /// Data still to be sent at `seen`, in units of 10^-9 bit. The line sends `rate` of these units per nanosecond, so
    /// the arithmetic is exact.
    work: u128,
    /// Data that the policer let pass and has no tokens for yet, in the same units.
    policed: u128,
    counters: Counters,
}

impl Link {
    /// Returns an idle link. Its random numbers derive from `seed`.
    pub const fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            config,
            rng: Rng::new(seed),
            in_burst: false,
            seen: Instant::ZERO,
            work: 0,
            policed: 0,
            counters: Counters {
                offered: Count::ZERO,
                delivered: Count::ZERO,
                dropped_queue: Count::ZERO,
                dropped_loss: Count::ZERO,
                reordered: Count::ZERO,
                duplicated: Count::ZERO,
            },
        }
    }

    /// Takes a packet of `len` bytes, IP header included, and returns its fate. `now` must not decrease.
    pub fn offer(&mut self, now: Instant, len: u32) -> Verdict {
        self.carry(now, len, false)
    }

    /// Takes a packet that is exempt from random loss, like [`Self::offer`].
    pub fn offer_without_loss(&mut self, now: Instant, len: u32) -> Verdict {
        self.carry(now, len, true)
    }

    fn carry(&mut self, now: Instant, len: u32, is_exempt: bool) -> Verdict {
        self.counters.offered.add(len);
        self.drain(now);
        let sent = if self.passes_policer(len) {
            self.queue(len)
        } else {
            None
        };
        let Some(sent) = sent else {
            self.counters.dropped_queue.add(len);
            return Verdict::Dropped(DropReason::Queue);
        };
        if !is_exempt && self.is_lost() {
            self.counters.dropped_loss.add(len);
            return Verdict::Dropped(DropReason::Loss);
        }
        let mut at = sent + self.config.delay;
        if let Some(reorder) = self.config.reorder
            && self.rng.chance_ppb(reorder.ppb)
        {
            self.counters.reordered.add(len);
            at += reorder.extra;
        }
        let twice = self.rng.chance_ppb(self.config.duplicate_ppb);
        if twice {
            self.counters.duplicated.add(len);
        }
        self.counters.delivered.add(len);
        Verdict::Delivered {
            at,
            again: twice.then_some(at),
        }
    }

    /// Returns the bytes waiting for the line, including the unsent part of the packet on the line, rounded up.
    pub fn backlog_bytes(&mut self, now: Instant) -> u64 {
        self.drain(now);
        self.work.div_ceil(WORK_PER_BYTE) as u64
    }

    /// Returns the time at which the line will have sent all queued packets.
    pub fn idle_at(&mut self, now: Instant) -> Instant {
        self.drain(now);
        self.sent_at()
    }

    /// Changes the parameters of the link from `now` on, as after a change of the route. Packets in the queue remain
    /// there, and those behind it arrive as they would have.
    pub fn change(&mut self, now: Instant, config: LinkConfig) {
        self.drain(now);
        self.config = config;
    }

    /// Returns the parameters of the link.
    pub const fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Returns the packet counters.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Appends a packet to the queue. Returns the time at which its last bit leaves the line, or `None` if the queue
    /// is full.
    fn queue(&mut self, len: u32) -> Option<Instant> {
        if self.config.rate.is_none() {
            return Some(self.seen);
        }
        let work = self.work + u128::from(len) * WORK_PER_BYTE;
        if work > u128::from(self.config.queue_bytes_max) * WORK_PER_BYTE {
            return None;
        }
        self.work = work;
        Some(self.sent_at())
    }

    /// Advances the line to `now`.
    fn drain(&mut self, now: Instant) {
        debug_assert!(now >= self.seen, "time must not decrease");
        if let Some(rate) = self.config.rate {
            let sent = now.since(self.seen).as_nanos() * u128::from(rate.as_bps());
            self.work = self.work.saturating_sub(sent);
        }
        if let Some(policer) = self.config.policer {
            let tokens = now.since(self.seen).as_nanos() * u128::from(policer.rate.as_bps());
            self.policed = self.policed.saturating_sub(tokens);
        }
        self.seen = self.seen.max(now);
    }

    /// Takes tokens for a packet, if there are enough.
    fn passes_policer(&mut self, len: u32) -> bool {
        let Some(policer) = self.config.policer else {
            return true;
        };
        let used = self.policed + u128::from(len) * WORK_PER_BYTE;
        let passes = used <= u128::from(policer.burst_bytes) * WORK_PER_BYTE;
        if passes {
            self.policed = used;
        }
        passes
    }

    fn sent_at(&self) -> Instant {
        let Some(rate) = self.config.rate else {
            return self.seen;
        };
        // nearly always both fit in 64 bits, where division is several times faster
        let nanos = match u64::try_from(self.work) {
            Ok(work) => work.div_ceil(rate.as_bps()),
            Err(_) => {
                u64::try_from(self.work.div_ceil(u128::from(rate.as_bps()))).unwrap_or(u64::MAX)
            }
        };
        self.seen + Duration::from_nanos(nanos)
    }

    fn is_lost(&mut self) -> bool {
        if let Some(burst) = self.config.burst {
            self.in_burst = if self.in_burst {
                self.rng.below(u64::from(burst.len_mean.max(1))) != 0
            } else {
                self.rng.chance_ppb(burst.enter_ppb)
            };
            if self.in_burst {
                return true;
            }
        }
        self.rng.chance_ppb(self.config.loss_ppb)
    }
}

impl Count {
    const ZERO: Self = Self {
        packets: 0,
        bytes: 0,
    };

    pub(crate) const fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += len as u64;
    }
}

/// Data of one byte, in units of 10^-9 bit.
const WORK_PER_BYTE: u128 = 8_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn gigabit() -> LinkConfig {
        LinkConfig {
            rate: Some(Rate::from_mbps(1000)),
            delay: Duration::from_millis(50),
            queue_bytes_max: 3_000,
            ..LinkConfig::default()
        }
    }

    fn at(verdict: Verdict) -> u64 {
        match verdict {
            Verdict::Delivered { at, .. } => at.as_nanos(),
            Verdict::Dropped(reason) => panic!("dropped: {reason:?}"),
        }
    }

    #[test]
    fn packets_leave_in_sequence_at_line_rate() {
        let mut link = Link::new(gigabit(), 1);
        let now = Instant::ZERO;
        assert_eq!(at(link.offer(now, 1500)), 50_012_000);
        assert_eq!(at(link.offer(now, 1500)), 50_024_000);
        assert_eq!(link.offer(now, 1500), Verdict::Dropped(DropReason::Queue));
        let later = Instant::from_nanos(12_000);
        assert_eq!(link.backlog_bytes(later), 1500);
        assert_eq!(at(link.offer(later, 1500)), 50_036_000);
        assert_eq!(link.idle_at(later).as_nanos(), 36_000);
        assert_eq!(link.counters().dropped_queue.bytes, 1500);
    }

    #[test]
    fn queue_is_kept_when_link_parameters_change() {
        let mut link = Link::new(gigabit(), 1);
        let now = Instant::ZERO;
        link.offer(now, 1500);
        let changed = LinkConfig {
            rate: Some(Rate::from_mbps(100)),
            delay: Duration::from_millis(1),
            ..gigabit()
        };
        let later = Instant::from_nanos(6_000);
        link.change(later, changed);
        // half of the first packet is left, at a tenth of the rate
        assert_eq!(link.backlog_bytes(later), 750);
        assert_eq!(at(link.offer(later, 1500)), 6_000 + 180_000 + 1_000_000);
    }

    #[test]
    fn policer_passes_its_burst_and_then_its_rate() {
        let config = LinkConfig {
            policer: Some(Policer {
                rate: Rate::from_mbps(100),
                burst_bytes: 15_000,
            }),
            ..LinkConfig::default()
        };
        let mut link = Link::new(config, 1);
        for nth in 0..100_000_u64 {
            link.offer(Instant::from_nanos(nth * 12_000), 1500);
        }
        let seen = link.counters();
        let passed = seen.delivered.packets;
        // ten at once, and a tenth of the rest
        assert!((10_005..=10_015).contains(&passed), "{passed}");
        assert_eq!(seen.dropped_queue.packets, 100_000 - passed);
    }

    #[test]
    fn perfect_link_delivers_at_once() {
        let mut link = Link::new(LinkConfig::default(), 1);
        assert_eq!(at(link.offer(Instant::from_nanos(7), u32::MAX)), 7);
    }

    #[test]
    fn odd_rates_do_not_drift() {
        let rate = Rate::from_bps(999_999_937);
        let mut link = Link::new(
            LinkConfig {
                rate,
                ..LinkConfig::default()
            },
            1,
        );
        let last = (0..1_000_000)
            .map(|_| at(link.offer(Instant::ZERO, 1471)))
            .last();
        let exact = (1471_u128 * 1_000_000 * 8_000_000_000).div_ceil(999_999_937);
        assert_eq!(last.map(u128::from), Some(exact));
    }

    #[test]
    fn loss_stays_in_its_binomial_interval() {
        let config = LinkConfig {
            loss_ppb: 10_000_000,
            ..LinkConfig::default()
        };
        let mut link = Link::new(config, 3);
        for _ in 0..1_000_000 {
            link.offer(Instant::ZERO, 100);
        }
        // five standard deviations of 99.5
        assert!(link.counters().dropped_loss.packets.abs_diff(10_000) < 498);
        let lost = link.counters().dropped_loss;
        for _ in 0..10_000 {
            link.offer_without_loss(Instant::ZERO, 100);
        }
        assert_eq!(link.counters().dropped_loss, lost);
    }

    #[test]
    fn bursts_have_configured_mean_length() {
        let config = LinkConfig {
            burst: Some(BurstLoss {
                enter_ppb: 1_000_000,
                len_mean: 20,
            }),
            ..LinkConfig::default()
        };
        let mut link = Link::new(config, 5);
        let (mut lost, mut bursts, mut before) = (0_u64, 0_u64, false);
        for _ in 0..3_000_000 {
            let now = link.offer(Instant::ZERO, 100) == Verdict::Dropped(DropReason::Loss);
            bursts += u64::from(now && !before);
            lost += u64::from(now);
            before = now;
        }
        let mean = lost as f64 / bursts as f64;
        assert!((19.0..21.0).contains(&mean), "mean burst {mean}");
        assert!((2_700..3_200).contains(&bursts), "{bursts} bursts");
    }

    #[test]
    fn reordering_and_duplication_match_their_probabilities() {
        let config = LinkConfig {
            reorder: Some(Reorder {
                ppb: 100_000_000,
                extra: Duration::from_micros(9),
            }),
            duplicate_ppb: 50_000_000,
            ..LinkConfig::default()
        };
        let mut link = Link::new(config, 7);
        let verdicts: Vec<_> = (0..100_000)
            .map(|_| link.offer(Instant::ZERO, 10))
            .collect();
        let late = verdicts.iter().filter(|v| at(**v) == 9_000).count() as u64;
        assert_eq!(late, link.counters().reordered.packets);
        assert!(late.abs_diff(10_000) < 500);
        assert!(link.counters().duplicated.packets.abs_diff(5_000) < 350);
    }

    proptest! {
        #[test]
        fn every_packet_is_counted_and_order_is_kept(
            bps in 1_000_000_u64..100_000_000_000,
            queue_bytes_max in 0_u64..100_000,
            loss_ppb in 0_u64..500_000_000,
            steps in prop::collection::vec((0_u64..50_000, 1_u32..70_000), 1..300),
            seed: u64,
        ) {
            let config = LinkConfig {
                rate: Rate::from_bps(bps), queue_bytes_max, loss_ppb, ..LinkConfig::default()
            };
            let mut link = Link::new(config, seed);
            let mut twin = Link::new(config, seed);
            let (mut now, mut last, mut bytes) = (Instant::ZERO, Instant::ZERO, 0_u64);
            for (wait, len) in steps {
                now += Duration::from_nanos(wait);
                let verdict = link.offer(now, len);
                prop_assert_eq!(verdict, twin.offer(now, len));
                prop_assert!(link.backlog_bytes(now) <= queue_bytes_max);
                if let Verdict::Delivered { at, .. } = verdict {
                    prop_assert!(at >= last, "a line must keep the order");
                    last = at;
                    bytes += u64::from(len);
                }
            }
            let seen = link.counters();
            prop_assert_eq!(seen.delivered.bytes, bytes);
            prop_assert_eq!(
                seen.offered.packets,
                seen.delivered.packets + seen.dropped_queue.packets + seen.dropped_loss.packets
            );
            // the line never carries more than its rate
            let carried = u128::from(last.as_nanos()) * u128::from(bps);
            prop_assert!(u128::from(bytes) * WORK_PER_BYTE <= carried);
        }
    }
}
