//! Rate that the receiving host can take, computed from its reports.
//!
//! ```text
//!             drops: slightly below what arrives
//!   Limited <------------------------------------ Free
//!      \-------- steps up without drops ----------^
//! ```
//!
//! A step up that causes drops is reverted, and doubles the wait before the next step. A successful step triples the
//! next.
//!
//! A slow disk does not make the host drop datagrams: [`DiskRate`](super::disk_rate::DiskRate) follows it.

use core::time::Duration;

use lighthaul_base::{Instant, Rate};

/// Counters of the receiving host since the start of the transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Packets that have arrived.
    pub arrived: u64,
    /// Datagrams that the host has dropped, because a receive buffer was full.
    pub dropped: u64,
    /// Time in which the receiving thread of a lane was ready to run, but had no processor, on average over the lanes.
    pub run_delay: Duration,
}

/// Part of the receiving host that limits a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLimit {
    /// The host drops datagrams.
    Drops,
    /// The host drops datagrams, and its receiving threads wait for a processor.
    Processors,
}

/// Change of the rate because of the receiving host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostChange {
    /// The host can take less than the rate.
    Limited(HostLimit),
    /// The host can take more again.
    Freed(HostLimit),
}

/// Start of a window, and the counters at that time; none before the first report.
#[derive(Clone, Copy, Debug)]
struct Window(Option<(Instant, HostFacts)>);

impl Window {
    /// Returns the start, length and counts of a window that ends now. Returns none if it is too short.
    fn end(
        &mut self,
        now: Instant,
        facts: HostFacts,
        least: Duration,
    ) -> Option<(Instant, Duration, HostFacts)> {
        let (begun, before) = *self.0.get_or_insert((now, facts));
        let time = now.since(begun);
        if time < least {
            return None;
        }
        self.0 = Some((now, facts));
        Some((begun, time, facts.since(&before)))
    }
}

/// Rate control by the counters of the receiving host.
#[derive(Clone, Copy, Debug)]
pub struct HostRate {
    /// Rate without a limit.
    asked: Rate,
    rate: Rate,
    packet_bytes: u32,
    rtt: Duration,
    /// Present limit; none once the rate without a limit is reached.
    limit: Option<HostLimit>,
    /// Window for drops.
    window: Window,
    changed: Instant,
    rose: bool,
    /// Next step up, in percent.
    step: u32,
    /// Time before the first step up after a reduction.
    wait: Duration,
}

impl HostRate {
    /// Starts at the rate `asked`, with packets of `packet_bytes` on the wire.
    pub fn new(now: Instant, asked: Rate, (rtt, packet_bytes): (Duration, u32)) -> Self {
        Self {
            asked,
            rate: asked,
            packet_bytes,
            rtt,
            limit: None,
            window: Window(None),
            changed: now,
            rose: false,
            step: STEP_MIN,
            wait: interval(rtt),
        }
    }

    /// Returns the rate that the host can take.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Allows at least `rate`, which the host has taken.
    pub fn raise(&mut self, now: Instant, rate: Rate) {
        self.asked = self.asked.max(rate);
        if rate > self.rate {
            self.rate = rate;
            self.changed = now;
        }
    }

    /// Adapts to a report of the host. Returns the change of the rate, if any. `may_change` is false shortly after
    /// another change.
    pub fn update(
        &mut self,
        now: Instant,
        facts: HostFacts,
        may_change: bool,
    ) -> Option<HostChange> {
        // a sender without a rate has nothing to adapt
        if self.rate == Rate::UNLIMITED {
            return None;
        }
        let window = WINDOW.max(self.rtt);
        let (begun, time, seen) = self.window.end(now, facts, window)?;
        // packets that were sent at another rate say nothing about this rate
        if begun < self.changed + self.rtt || !may_change {
            return None;
        }
        let change = if seen.dropped > 0 {
            self.lower(now, (seen, time))
        } else {
            self.step_up(now)
        }?;
        // the next window begins when the new rate has arrived
        self.window.0 = None;
        Some(change)
    }

    fn lower(&mut self, now: Instant, (seen, time): (HostFacts, Duration)) -> Option<HostChange> {
        let limit = if seen.run_delay >= time / RUN_DELAY_PART {
            HostLimit::Processors
        } else {
            HostLimit::Drops
        };
        let below = if seen.are_drops_many() {
            BELOW_DROPS
        } else {
            BELOW_FEW
        };
        let taken = self.taken(seen, time).scaled(below.0, below.1);
        let least = self.rate.scaled(REDUCTION_MAX.0, REDUCTION_MAX.1);
        let taken = taken.max(least);
        if taken > self.rate.scaled(NEAR.0, NEAR.1) {
            return None;
        }
        self.wait = if self.rose {
            (self.wait * 2).min(WAIT_MAX.max(self.wait))
        } else {
            interval(self.rtt)
        };
        self.rose = false;
        self.step = STEP_MIN;
        self.rate = taken;
        self.changed = now;
        self.limit = Some(limit);
        Some(HostChange::Limited(limit))
    }

    /// Returns the rate that the host has taken. What arrived is that only while the sender used its rate: if the source
    /// or the disk of the host is slower, the host takes the part of the rate that it did not drop.
    fn taken(&self, seen: HostFacts, time: Duration) -> Rate {
        let rate_of = |packets: u64| {
            let bytes = packets.saturating_mul(self.packet_bytes.into());
            Rate::of(bytes.max(1), time)
        };
        let came = seen.arrived.saturating_add(seen.dropped);
        if rate_of(came) >= self.rate.scaled(USED_MIN.0, USED_MIN.1) {
            return rate_of(seen.arrived);
        }
        let percent = u128::from(seen.arrived) * 100 / u128::from(came.max(1));
        self.rate.scaled(percent as u32, 100)
    }

    fn step_up(&mut self, now: Instant) -> Option<HostChange> {
        let limit = self.limit?;
        let wait = if self.rose {
            interval(self.rtt)
        } else {
            self.wait
        };
        if now.since(self.changed) < wait {
            return None;
        }
        self.rose = true;
        self.rate = self.rate.scaled(100 + self.step, 100).min(self.asked);
        self.step = (self.step * STEP_GROWTH).min(STEP_MAX);
        self.changed = now;
        if self.rate == self.asked {
            self.limit = None;
        }
        Some(HostChange::Freed(limit))
    }
}

impl HostFacts {
    /// Returns the counts since `before`. Counters of a faulty peer may fall.
    const fn since(&self, before: &Self) -> Self {
        Self {
            arrived: self.arrived.saturating_sub(before.arrived),
            dropped: self.dropped.saturating_sub(before.dropped),
            run_delay: self.run_delay.saturating_sub(before.run_delay),
        }
    }

    /// Returns true if the host drops a large part of the datagrams, so that its rate is much lower.
    const fn are_drops_many(&self) -> bool {
        let all = self.arrived.saturating_add(self.dropped);
        self.dropped > all / DROPPED_PART
    }
}

/// Returns the minimum time between two steps up.
fn interval(rtt: Duration) -> Duration {
    INTERVAL.max(rtt * INTERVAL_RTTS)
}

/// Minimum length of a window, unless a round trip takes longer.
const WINDOW: Duration = Duration::from_millis(200);
/// Minimum time between two steps up, unless ten round trips take longer.
const INTERVAL: Duration = Duration::from_millis(300);
/// Minimum time between two steps up, in round trips.
const INTERVAL_RTTS: u32 = 10;
/// Maximum wait before a step up, after many failed steps.
const WAIT_MAX: Duration = Duration::from_secs(8);
/// Processors limit the transfer if receiving threads wait for this part of a window: one quarter.
const RUN_DELAY_PART: u32 = 4;
/// The host is much slower than the rate if it drops more than this part of the datagrams: one twentieth.
const DROPPED_PART: u64 = 20;
/// Rate after many drops, as a fraction of the rate that arrived.
const BELOW_DROPS: (u32, u32) = (98, 100);
/// Rate after few drops, as a fraction of the rate that arrived.
const BELOW_FEW: (u32, u32) = (95, 100);
/// Part of the rate that comes to the host while the sender uses it.
const USED_MIN: (u32, u32) = (85, 100);
/// Minimum of a reduced rate, as a fraction of the rate before. A host that stood still for a moment drops everything.
const REDUCTION_MAX: (u32, u32) = (1, 16);
/// Smallest reduction: a new rate above this fraction of the present rate is ignored.
const NEAR: (u32, u32) = (98, 100);
/// Growth of the steps up. A host that keeps up with several steps has become much faster.
const STEP_GROWTH: u32 = 3;
/// Minimum of a step up, in percent.
const STEP_MIN: u32 = 5;
/// Maximum of a step up, in percent.
const STEP_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const TICK: Duration = Duration::from_millis(50);
    const PACKET_BYTES: u32 = 1250;
    const ASKED: Rate = Rate::from_mbps(1000);

    /// Host that takes a given rate, and drops the rest.
    struct Host {
        rate: HostRate,
        now: Instant,
        facts: HostFacts,
        changes: Vec<(Instant, HostChange)>,
    }

    impl Host {
        fn new() -> Self {
            Self {
                rate: HostRate::new(Instant::ZERO, ASKED, (RTT, PACKET_BYTES)),
                now: Instant::ZERO,
                facts: HostFacts::default(),
                changes: Vec::new(),
            }
        }

        fn run(&mut self, millis: u32, takes: Rate, limit: HostLimit) {
            for _ in 0..millis / 50 {
                self.now += TICK;
                let packets = |rate: Rate| rate.bytes_in(TICK) / u64::from(PACKET_BYTES);
                let sent = packets(self.rate.rate());
                let arrived = sent.min(packets(takes));
                self.facts.arrived += arrived;
                let rest = TICK.mul_f64((sent - arrived) as f64 / sent.max(1) as f64);
                match limit {
                    HostLimit::Drops => self.facts.dropped += sent - arrived,
                    HostLimit::Processors => {
                        self.facts.dropped += sent - arrived;
                        self.facts.run_delay += rest;
                    }
                }
                let change = self.rate.update(self.now, self.facts, true);
                self.changes.extend(change.map(|change| (self.now, change)));
            }
        }

        fn mbps(&self) -> u64 {
            self.rate.rate().as_bps() / 1_000_000
        }
    }

    #[test]
    fn few_drops_while_the_source_is_slow_change_the_rate_little() {
        let mut host = Host::new();
        for _ in 0..40 {
            host.now += TICK;
            // a tenth of the rate, of which the host drops a hundredth
            host.facts.arrived += 495;
            host.facts.dropped += 5;
            let change = host.rate.update(host.now, host.facts, true);
            host.changes.extend(change.map(|change| (host.now, change)));
        }
        assert!(
            !host.changes.is_empty() && host.mbps() > 600,
            "{}",
            host.mbps()
        );
    }

    #[test]
    fn rate_falls_to_what_a_host_takes_and_returns() {
        for limit in [HostLimit::Drops, HostLimit::Processors] {
            let mut host = Host::new();
            host.run(3000, ASKED, limit);
            assert_eq!(host.changes, []);
            host.run(700, Rate::from_mbps(100), limit);
            let found = host.mbps();
            assert!((90..=106).contains(&found), "{limit:?}: {found}");
            // a window may include the end of the faster time
            assert!(host.changes.len() <= 2, "{:?}", host.changes);
            let last = host.changes.last().map(|(_, change)| *change);
            assert_eq!(last, Some(HostChange::Limited(limit)));
            host.run(10_000, Rate::from_mbps(100), limit);
            let found = host.mbps();
            assert!((90..=110).contains(&found), "{limit:?}: {found}");
            // the last wait may be eight seconds, and ten steps follow
            host.run(16_000, ASKED, limit);
            assert_eq!(host.rate.rate(), ASKED, "{:?}", host.changes);
            let last = host.changes.last().map(|(_, change)| *change);
            assert!(matches!(last, Some(HostChange::Freed(_))), "{last:?}");
        }
    }

    #[test]
    fn steps_that_a_host_does_not_take_become_rare() {
        let mut host = Host::new();
        host.run(120_000, Rate::from_mbps(100), HostLimit::Drops);
        let late = host
            .changes
            .iter()
            .filter(|(at, _)| at.as_secs_f64() > 60.0);
        let late = late.count();
        assert!((2..=20).contains(&late), "{late}: {:?}", host.changes);
    }

    #[test]
    fn limit_follows_a_rate_that_was_raised() {
        let mut host = Host::new();
        host.run(2000, Rate::from_mbps(500), HostLimit::Drops);
        host.rate.raise(host.now, ASKED.scaled(2, 1));
        assert_eq!(host.mbps(), 2000);
        host.run(1000, Rate::from_mbps(1500), HostLimit::Drops);
        assert!((1400..1600).contains(&host.mbps()), "{}", host.mbps());
    }

    proptest! {
        #[test]
        fn any_counters_of_a_peer_leave_a_rate_above_zero(
            reports in proptest::collection::vec((any::<[u64; 3]>(), 0_u64..1000), 0..100),
        ) {
            let mut rate = Host::new().rate;
            let mut now = Instant::ZERO;
            for (numbers, millis) in reports {
                now += Duration::from_millis(millis);
                let facts = HostFacts {
                    arrived: numbers[0],
                    dropped: numbers[1],
                    run_delay: Duration::from_nanos(numbers[2]),
                };
                rate.update(now, facts, true);
                prop_assert!(rate.rate().as_bps() > 0 && rate.rate() <= ASKED);
            }
        }
    }
}
