//! Rate that the disks of both hosts can take, computed from the waiting times of the lanes.
//!
//! ```text
//!            lanes wait half of the time for four seconds: 3/2 of what it takes
//!   Limited <---------------------------------------------------------------- Free
//!      \---------- doubles while the lanes do not wait, and the disk ----------^
//!                         of the receiver has written everything
//! ```
//!
//! A receiver pauses a sender that is faster than its disk, so nothing is lost. But the sender then sends in bursts at
//! the rate of the path. The lower rate spreads the data, and one lane suffices for it. It stays above the rate of the
//! disk, so the disk is always busy. While nothing else changes, the disk remains the limit.

use core::time::Duration;

use lighthaul_base::{Instant, Rate};

/// Disk of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// Disk of the sending host.
    Source,
    /// Disk of the receiving host.
    Target,
}

/// Counters of the lanes since the start of the transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFacts {
    /// Packets that have arrived.
    pub arrived: u64,
    /// Time in which lanes had an object, summed over the lanes.
    pub lane_time: Duration,
    /// Time in which lanes waited for the disk of the sending host, summed over the lanes.
    pub source_wait: Duration,
    /// Time in which lanes waited for the disk of the receiving host, summed over the lanes.
    pub target_wait: Duration,
    /// Bytes at the receiving host that wait for its disk now.
    pub backlog_bytes: u64,
}

/// Change of the rate because of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskChange {
    /// The transfer waits for the disk.
    Limited(Disk),
    /// The disk can take more.
    Freed(Disk),
}

/// Rate control by the waiting times for disks.
#[derive(Clone, Copy, Debug)]
pub struct DiskRate {
    /// Rate without a limit.
    asked: Rate,
    rate: Rate,
    packet_bytes: u32,
    /// Length of a window that can end a limit.
    interval: Duration,
    /// Disk that limits the transfer.
    slow: Option<Disk>,
    /// Window for a slow disk.
    long: Window,
    /// Time of the latest long windows, and bytes that passed the disks in them.
    moved: [(Duration, u64); WINDOWS],
    /// Number of long windows in a row in which the disk was slow.
    slow_windows: usize,
    /// Window for a faster disk, and the least backlog in it.
    short: Window,
    backlog_bytes_min: u64,
}

/// Start of a window, and the counters at that time; none before the first report.
#[derive(Clone, Copy, Debug, Default)]
struct Window(Option<(Instant, DiskFacts)>);

impl Window {
    /// Returns the length of a window that ends now, and the counters at its start. Returns none if it is too short.
    fn end(
        &mut self,
        now: Instant,
        facts: DiskFacts,
        least: Duration,
    ) -> Option<(Duration, DiskFacts)> {
        let (begun, before) = *self.0.get_or_insert((now, facts));
        let time = now.since(begun);
        if time < least {
            return None;
        }
        self.0 = Some((now, facts));
        Some((time, before))
    }
}

impl DiskRate {
    /// Starts at the rate `asked`, with packets of `packet_bytes` on the wire.
    pub fn new(asked: Rate, (rtt, packet_bytes): (Duration, u32)) -> Self {
        Self {
            asked,
            rate: asked,
            packet_bytes,
            interval: INTERVAL.max(rtt * INTERVAL_RTTS),
            slow: None,
            long: Window::default(),
            moved: [(Duration::ZERO, 0); WINDOWS],
            slow_windows: 0,
            short: Window::default(),
            backlog_bytes_min: u64::MAX,
        }
    }

    /// Returns the rate that the disks can take.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the disk that limits the transfer.
    pub const fn slow(&self) -> Option<Disk> {
        self.slow
    }

    /// Allows `rate`, unless a disk limits the transfer. Then it is allowed later.
    pub fn raise(&mut self, rate: Rate) {
        self.asked = self.asked.max(rate);
        if self.slow.is_none() {
            self.rate = self.asked;
        }
    }

    /// Adapts to a report. Returns the change, if any. `may_change` is false shortly after another change.
    pub fn update(
        &mut self,
        now: Instant,
        facts: DiskFacts,
        may_change: bool,
    ) -> Option<DiskChange> {
        self.backlog_bytes_min = self.backlog_bytes_min.min(facts.backlog_bytes);
        let freed = self.judge_freed(now, facts, may_change);
        let limited = self.judge_slow(now, facts, may_change && freed.is_none());
        freed.or(limited)
    }

    fn judge_slow(
        &mut self,
        now: Instant,
        facts: DiskFacts,
        may_change: bool,
    ) -> Option<DiskChange> {
        let (time, before) = self.long.end(now, facts, WINDOW.max(self.interval))?;
        let seen = facts.since(&before);
        // a paused sender sends nothing, while the disk takes what has arrived
        let bytes = seen.bytes(self.packet_bytes);
        let taken = bytes.saturating_add(before.backlog_bytes);
        let taken = taken.saturating_sub(facts.backlog_bytes);
        self.moved.rotate_left(1);
        self.moved[WINDOWS - 1] = (time, taken);
        let disk = seen.slower();
        self.slow_windows = if seen.percent(disk) >= SLOW_PERCENT {
            self.slow_windows + 1
        } else {
            0
        };
        if !may_change || self.slow_windows < WINDOWS {
            return None;
        }
        if self.rate == Rate::UNLIMITED {
            let is_new = self.slow.is_none();
            self.slow = Some(disk);
            return is_new.then_some(DiskChange::Limited(disk));
        }
        let rate = self.mean().scaled(ABOVE.0, ABOVE.1).max(RATE_MIN);
        if rate > self.rate.scaled(NEAR.0, NEAR.1) {
            return None;
        }
        (self.rate, self.slow) = (rate, Some(disk));
        (self.long, self.slow_windows) = (Window(None), 0);
        self.begin_short();
        Some(DiskChange::Limited(disk))
    }

    fn judge_freed(
        &mut self,
        now: Instant,
        facts: DiskFacts,
        may_change: bool,
    ) -> Option<DiskChange> {
        let disk = self.slow?;
        let (time, before) = self.short.end(now, facts, self.interval)?;
        let seen = facts.since(&before);
        let backlog = core::mem::replace(&mut self.backlog_bytes_min, u64::MAX);
        let is_idle = disk == Disk::Source || backlog == 0;
        if !is_idle || !may_change || seen.percent(disk) > FREE_PERCENT {
            return None;
        }
        if self.rate != Rate::UNLIMITED {
            let used = Rate::of(seen.bytes(self.packet_bytes).max(1), time);
            let is_used = used >= self.rate.scaled(1, USED_PART);
            let step = self.rate.scaled(STEP, 1).min(self.asked);
            // something else limits a transfer that does not use its rate
            self.rate = if is_used { step } else { self.asked };
        }
        if self.rate == self.asked {
            self.slow = None;
        }
        // what moved at the lower rate says nothing about the disk
        (self.long, self.slow_windows) = (Window(None), 0);
        self.begin_short();
        Some(DiskChange::Freed(disk))
    }

    const fn begin_short(&mut self) {
        (self.short, self.backlog_bytes_min) = (Window(None), u64::MAX);
    }

    /// Returns the rate at which bytes passed the disks in the latest windows.
    fn mean(&self) -> Rate {
        let sum = |sum: (Duration, u64), window: &(Duration, u64)| {
            (sum.0 + window.0, sum.1.saturating_add(window.1))
        };
        let (time, bytes) = self.moved.iter().fold((Duration::ZERO, 0), sum);
        Rate::of(bytes.max(1), time)
    }
}

impl DiskFacts {
    /// Returns the counts since `before`. Counters of a faulty peer may fall.
    const fn since(&self, before: &Self) -> Self {
        Self {
            arrived: self.arrived.saturating_sub(before.arrived),
            lane_time: self.lane_time.saturating_sub(before.lane_time),
            source_wait: self.source_wait.saturating_sub(before.source_wait),
            target_wait: self.target_wait.saturating_sub(before.target_wait),
            backlog_bytes: self.backlog_bytes,
        }
    }

    /// Returns the bytes of the packets that have arrived.
    fn bytes(&self, packet_bytes: u32) -> u64 {
        self.arrived.saturating_mul(packet_bytes.into())
    }

    /// Returns the disk for which the lanes waited longer.
    fn slower(&self) -> Disk {
        if self.source_wait > self.target_wait {
            Disk::Source
        } else {
            Disk::Target
        }
    }

    /// Returns the part of the lanes' time in which they waited for `disk`, in percent.
    fn percent(&self, disk: Disk) -> u128 {
        let wait = match disk {
            Disk::Source => self.source_wait,
            Disk::Target => self.target_wait,
        };
        wait.as_nanos() * 100 / self.lane_time.as_nanos().max(1)
    }
}

/// Minimum length of a window in which a disk is found to be slow.
const WINDOW: Duration = Duration::from_secs(1);
/// Number of windows in a row in which a limiting disk is slow. A cache that fills and drains in turn is slow for less.
const WINDOWS: usize = 4;
/// Minimum length of a window in which a disk is found to be faster, unless ten round trips take longer.
const INTERVAL: Duration = Duration::from_millis(300);
/// Minimum length of that window, in round trips.
const INTERVAL_RTTS: u32 = 10;
/// A disk limits the transfer if lanes wait for it at least this percentage of their time.
const SLOW_PERCENT: u128 = 50;
/// A disk can take more if lanes wait for it at most this percentage of their time.
const FREE_PERCENT: u128 = 6;
/// Rate for a slow disk, as a fraction of the rate that it takes. The disk stays busy.
const ABOVE: (u32, u32) = (3, 2);
/// Lowest rate for a slow disk, which may have stood still for some seconds.
const RATE_MIN: Rate = Rate::from_mbps(8);
/// Smallest reduction: a new rate above this fraction of the present rate is ignored.
const NEAR: (u32, u32) = (9, 10);
/// Factor of a step up.
const STEP: u32 = 2;
/// Part of the rate that a transfer uses if nothing but the rate limits it: one half.
const USED_PART: u32 = 2;

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const TICK: Duration = Duration::from_millis(50);
    const PACKET_BYTES: u32 = 1250;
    const ASKED: Rate = Rate::from_mbps(1000);
    const LIMITED: DiskChange = DiskChange::Limited(Disk::Target);
    const FREED: DiskChange = DiskChange::Freed(Disk::Target);

    /// Transfer through a slow disk. The target's memory takes 10 MB, and pauses the sender while more than half of it
    /// waits.
    struct Transfer {
        rate: DiskRate,
        now: Instant,
        facts: DiskFacts,
        is_paused: bool,
        changes: Vec<(Instant, DiskChange)>,
    }

    impl Transfer {
        fn new(asked: Rate) -> Self {
            Self {
                rate: DiskRate::new(asked, (RTT, PACKET_BYTES)),
                now: Instant::ZERO,
                facts: DiskFacts::default(),
                is_paused: false,
                changes: Vec::new(),
            }
        }

        fn run(&mut self, disk: Disk, millis: u32, takes: Rate) {
            for _ in 0..millis / 50 {
                self.now += TICK;
                let facts = &mut self.facts;
                facts.lane_time += TICK;
                let sends = self.rate.rate().min(ASKED).bytes_in(TICK);
                let takes = takes.bytes_in(TICK);
                let bytes = match disk {
                    Disk::Source => sends.min(takes),
                    Disk::Target if self.is_paused => 0,
                    Disk::Target => sends,
                };
                facts.arrived += bytes / u64::from(PACKET_BYTES);
                match disk {
                    Disk::Source => {
                        let rest = (sends - bytes) as f64 / sends as f64;
                        facts.source_wait += TICK.mul_f64(rest);
                    }
                    Disk::Target => {
                        let waiting = (facts.backlog_bytes + bytes).saturating_sub(takes);
                        facts.backlog_bytes = waiting;
                        facts.target_wait += if self.is_paused { TICK } else { Duration::ZERO };
                        self.is_paused =
                            waiting > 5_000_000 || self.is_paused && waiting > 2_500_000;
                    }
                }
                let change = self.rate.update(self.now, *facts, true);
                self.changes.extend(change.map(|change| (self.now, change)));
            }
        }

        fn mbps(&self) -> u64 {
            self.rate.rate().as_bps() / 1_000_000
        }

        fn kinds(&self) -> Vec<DiskChange> {
            self.changes.iter().map(|(_, change)| *change).collect()
        }
    }

    #[test]
    fn rate_falls_to_slightly_more_than_a_slow_disk_takes_and_returns() {
        for disk in [Disk::Source, Disk::Target] {
            let mut transfer = Transfer::new(ASKED);
            transfer.run(disk, 3000, ASKED);
            assert_eq!(transfer.changes, [], "{disk:?}");
            transfer.run(disk, 7000, Rate::from_mbps(100));
            let found = transfer.mbps();
            assert!((140..=160).contains(&found), "{disk:?}: {found}");
            assert_eq!(transfer.rate.slow(), Some(disk));
            let before = transfer.changes.len();
            transfer.run(disk, 20_000, Rate::from_mbps(100));
            assert!(
                transfer.changes.len() <= before + 2,
                "{:?}",
                transfer.changes
            );
            transfer.run(disk, 3000, ASKED);
            assert_eq!(transfer.rate.rate(), ASKED, "{:?}", transfer.changes);
            assert_eq!(transfer.rate.slow(), None);
            assert_eq!(transfer.kinds().first(), Some(&DiskChange::Limited(disk)));
            assert_eq!(transfer.kinds().last(), Some(&DiskChange::Freed(disk)));
        }
    }

    #[test]
    fn slow_disk_stays_busy() {
        let mut transfer = Transfer::new(ASKED);
        transfer.run(Disk::Target, 60_000, Rate::from_mbps(50));
        let bytes = transfer.facts.arrived * u64::from(PACKET_BYTES);
        let written = bytes - transfer.facts.backlog_bytes;
        let most = Rate::from_mbps(50).bytes_in(Duration::from_mins(1));
        assert!(written * 100 >= most * 98, "{written} of {most}");
    }

    #[test]
    fn disk_that_takes_most_of_the_rate_leaves_it() {
        for disk in [Disk::Source, Disk::Target] {
            let mut transfer = Transfer::new(ASKED);
            transfer.run(disk, 30_000, Rate::from_mbps(700));
            assert_eq!(transfer.changes, [], "{disk:?}");
        }
    }

    #[test]
    fn cache_that_fills_and_drains_limits_the_rate_rarely() {
        let mut transfer = Transfer::new(ASKED);
        for _ in 0..15 {
            transfer.run(Disk::Target, 1000, ASKED);
            transfer.run(Disk::Target, 3000, Rate::from_mbps(20));
        }
        let bytes = transfer.facts.arrived * u64::from(PACKET_BYTES);
        let most = Rate::from_mbps(265).bytes_in(Duration::from_mins(1));
        assert!(bytes * 100 >= most * 70, "{bytes} of {most}");
    }

    #[test]
    fn rate_without_a_limit_stays_and_the_disk_is_reported() {
        let mut transfer = Transfer::new(Rate::UNLIMITED);
        transfer.run(Disk::Target, 20_000, Rate::from_mbps(100));
        assert_eq!(transfer.kinds(), [LIMITED]);
        transfer.run(Disk::Target, 3000, ASKED);
        assert_eq!(transfer.kinds(), [LIMITED, FREED]);
        assert_eq!(transfer.rate.rate(), Rate::UNLIMITED);
    }

    #[test]
    fn rate_that_was_raised_is_used_when_the_disk_is_faster() {
        let mut transfer = Transfer::new(Rate::from_mbps(500));
        transfer.run(Disk::Target, 8000, Rate::from_mbps(50));
        let found = transfer.mbps();
        transfer.rate.raise(ASKED);
        assert_eq!(transfer.mbps(), found);
        transfer.run(Disk::Target, 3000, ASKED);
        assert_eq!(transfer.rate.rate(), ASKED, "{:?}", transfer.changes);
        transfer.rate.raise(ASKED.scaled(2, 1));
        assert_eq!(transfer.mbps(), 2000);
    }

    proptest! {
        #[test]
        fn any_counters_of_a_peer_leave_a_rate_and_intervals_of_ten_round_trips(
            reports in proptest::collection::vec((any::<[u64; 5]>(), 0_u64..1000), 0..100),
        ) {
            let mut rate = DiskRate::new(ASKED, (RTT, PACKET_BYTES));
            let mut now = Instant::ZERO;
            let mut changed = None;
            for (numbers, millis) in reports {
                now += Duration::from_millis(millis);
                let [arrived, lanes, source, target, backlog_bytes] = numbers;
                let facts = DiskFacts {
                    arrived,
                    lane_time: Duration::from_nanos(lanes),
                    source_wait: Duration::from_nanos(source),
                    target_wait: Duration::from_nanos(target),
                    backlog_bytes: backlog_bytes % 3,
                };
                let before = rate.rate();
                rate.update(now, facts, true);
                prop_assert!(rate.rate().as_bps() > 0 && rate.rate() <= ASKED);
                if rate.rate() != before {
                    prop_assert!(changed.is_none_or(|at| now.since(at) >= RTT * 10));
                    changed = Some(now);
                }
            }
        }
    }
}
