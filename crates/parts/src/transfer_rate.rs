//! Rate of all lanes of a transfer, which follows the path and the receiving host.
//!
//! ```text
//!            most of what is sent does not arrive          nothing is lost for some time, or the rate is remembered
//!   Reduced <-------------------------------------- Steady ----------------------------------------> Searching
//!      \---------------- good passes ---------------^  ^---------- what arrives no longer rises -------/
//! ```
//!
//! Losses reduce it ([`LossRate`]). Between these, it searches for a higher rate: it rises in steps while what arrives
//! rises, too. From its begin to its end, a search is one rate change. Each rate change follows the last by at least
//! ten round trips. The reports of the receiving host limit the rate, too ([`HostRate`]), and so do slow disks of
//! both hosts ([`DiskRate`]).

use core::time::Duration;

use lighthaul_base::{Instant, Rate};

use super::disk_rate::{Disk, DiskChange, DiskFacts, DiskRate};
use super::flow_meter::{Flow, FlowMeter};
use super::host_rate::{HostChange, HostFacts, HostRate};
use super::loss_rate::{LossRate, PACKETS_MIN, Pass};

/// Rules that change the rate of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The user gave the rate. Only the receiving host reduces it.
    Given,
    /// The rate follows losses and arrivals, as on a path of one's own.
    Arrivals,
    /// The protocol has its own rate control. At first it may use up to twice the rate of the path.
    Own,
}

/// Parameters of a rate.
#[derive(Clone, Copy, Debug)]
pub struct RateConfig {
    /// Rate of the path at the start.
    pub rate: Rate,
    /// Rules that change the rate.
    pub rules: Rules,
    /// True if an earlier transfer measured the rate, so it must be checked.
    pub is_remembered: bool,
    /// Round-trip time.
    pub rtt: Duration,
    /// Bytes of a packet on the wire.
    pub packet_bytes: u32,
}

/// Reason of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The receiving host can take less, or more again.
    Host(HostChange),
    /// A disk can take less, or more again.
    Disk(DiskChange),
    /// Part of the sent packets that did not arrive, in parts per million.
    Lost(u32),
    /// The path may carry more than before.
    Search,
    /// The arrivals rose with the rate.
    Rises,
    /// The arrivals did not rise with the rate.
    Found,
    /// The protocol has used the whole rate for some time.
    Used,
}

/// Rate of all lanes.
// fields: the rules that lower or raise it, and what they know
#[derive(Clone, Debug)]
pub struct TransferRate {
    config: RateConfig,
    /// Highest rate that was found.
    most: Rate,
    losses: Option<LossRate>,
    host: HostRate,
    disk: DiskRate,
    /// Datagrams that the receiving host has dropped, according to its latest report.
    dropped: u64,
    /// Number of reports with drops.
    drops: u64,
    meter: FlowMeter,
    search: Search,
    /// Time since which the protocol has used the whole rate.
    used_since: Option<Instant>,
    /// Time of the latest rate change.
    changed: Instant,
    /// Time from which measurements apply to the present rate: its last change, or a later drop of the receiving host.
    rated: Instant,
    /// Number of rate changes.
    courses: u64,
}

/// Search for a higher rate.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// Time of the next search.
    next: Instant,
    /// Waiting time after a search without a result.
    wait: Duration,
    step: Option<Step>,
}

/// Step of a search.
#[derive(Clone, Copy, Debug)]
struct Step {
    began: Instant,
    rate: Rate,
    /// Rate that the path has carried.
    carried: Rate,
    is_first: bool,
}

/// State at the start of a pass over an object.
#[derive(Clone, Copy, Debug)]
pub struct PassBegin {
    packets: u64,
    rate: Rate,
    /// Time from which measurements applied to the rate at the start of the pass.
    rated: Instant,
    drops: u64,
}

impl TransferRate {
    /// Starts at the rate of the path.
    pub fn new(now: Instant, config: RateConfig) -> Self {
        let RateConfig { rate, rtt, .. } = config;
        let most = match config.rules {
            Rules::Own if config.is_remembered => rate.scaled(REMEMBERED_MOST, 1),
            Rules::Own => rate.scaled(2, 1),
            Rules::Given | Rules::Arrivals => rate,
        };
        let wait = SEARCH_INTERVAL.max(rtt * SEARCH_RTTS);
        let first = if config.is_remembered {
            REMEMBERED_INTERVAL.max(rtt * REMEMBERED_RTTS)
        } else {
            wait
        };
        Self {
            config,
            most,
            losses: (config.rules == Rules::Arrivals).then(|| LossRate::new(most, rtt)),
            host: HostRate::new(now, most, (rtt, config.packet_bytes)),
            disk: DiskRate::new(most, (rtt, config.packet_bytes)),
            dropped: 0,
            drops: 0,
            meter: FlowMeter::new(rtt, WINDOW_MAX.max(rtt)),
            search: Search {
                next: now + first,
                wait,
                step: None,
            },
            used_since: None,
            changed: now,
            rated: now,
            courses: 0,
        }
    }

    /// Returns the rate.
    pub fn rate(&self) -> Rate {
        if let Some(step) = self.search.step {
            return step.rate;
        }
        let after_losses = self.losses.as_ref().map_or(self.most, LossRate::rate);
        after_losses.min(self.host.rate()).min(self.disk.rate())
    }

    /// Returns the disk that limits the transfer.
    pub const fn slow_disk(&self) -> Option<Disk> {
        self.disk.slow()
    }

    /// Returns the rate reduced by losses, if the rules follow losses.
    pub fn after_losses(&self) -> Option<Rate> {
        self.losses.as_ref().map(LossRate::rate)
    }

    /// Returns the highest rate that was found.
    pub const fn most(&self) -> Rate {
        self.most
    }

    /// Returns the number of rate changes.
    pub const fn courses(&self) -> u64 {
        self.courses
    }

    /// Returns the state at the start of a pass of `packets` packets.
    pub fn begin_pass(&self, packets: u64) -> PassBegin {
        PassBegin {
            packets,
            rate: self.rate(),
            rated: self.rated,
            drops: self.drops,
        }
    }

    /// Adapts to a pass of which `lost` packets did not arrive. If the rate has changed meanwhile, or the receiving
    /// host has dropped datagrams, the pass says nothing about the path.
    pub fn end_pass(&mut self, now: Instant, begin: PassBegin, lost: u64) -> Option<Why> {
        // a search that found nothing ends at the rate at which it began
        let is_same = begin.rate == self.rate() && begin.rated == self.rated;
        let is_valid = is_same && begin.drops == self.drops;
        if !is_valid || self.search.step.is_some() || !self.may_change(now) {
            return None;
        }
        let pass = Pass {
            rate: begin.rate,
            sent: begin.packets,
            lost,
        };
        self.losses.as_mut()?.update(now, pass)?;
        Some(self.lose(now, pass))
    }

    /// Adapts to the counters that the receiving host has reported.
    pub fn handle_host(&mut self, now: Instant, facts: HostFacts) -> Option<Why> {
        let has_dropped = facts.dropped > self.dropped;
        self.dropped = facts.dropped;
        self.drops += u64::from(has_dropped);
        if has_dropped {
            // what the host drops says nothing about the path
            self.rated = now;
        }
        let step = self.search.step.filter(|_| has_dropped);
        if let Some(step) = step {
            return Some(self.end_search(now, step, step.carried));
        }
        let may_change = self.search.step.is_none() && self.may_change(now);
        let change = self.host.update(now, facts, may_change)?;
        self.change(now);
        Some(Why::Host(change))
    }

    /// Adapts to the time in which the lanes have waited for the disks of both hosts.
    pub fn handle_disks(&mut self, now: Instant, facts: DiskFacts) -> Option<Why> {
        let may_change = self.search.step.is_none() && self.may_change(now);
        let before = self.disk.rate();
        let change = self.disk.update(now, facts, may_change)?;
        if self.disk.rate() != before {
            self.change(now);
        }
        Some(Why::Disk(change))
    }

    /// Adapts to the number of packets that have arrived by the latest report. `sent` is the number of packets that all
    /// lanes have sent by now.
    pub fn handle_arrivals(&mut self, now: Instant, sent: u64, arrived: u64) -> Option<Why> {
        if self.config.rules != Rules::Arrivals {
            return None;
        }
        self.meter.update(now, sent, arrived);
        if let Some(step) = self.search.step {
            return self.judge(now, step);
        }
        if let Some(flows) = self.meter.latest_two(self.window(), self.rated)
            && is_overload(flows)
            && self.may_change(now)
        {
            let pass = Pass {
                rate: self.rate(),
                sent: flows[1].sent,
                lost: flows[1].sent - flows[1].arrived,
            };
            self.losses.as_mut()?.update_steady(now, pass)?;
            return Some(self.lose(now, pass));
        }
        let flow = self.meter.latest(self.short_window(), self.rated)?;
        self.begin_search(now, flow)
    }

    /// Ends a search, since something else limits the rate.
    pub fn cancel_search(&mut self, now: Instant) -> Option<Why> {
        let step = self.search.step?;
        Some(self.end_search(now, step, step.carried))
    }

    /// Records whether a protocol with its own rate control uses the whole rate. After ten round trips in which it did,
    /// it may have more.
    pub fn handle_use(&mut self, now: Instant, is_whole: bool) -> Option<Why> {
        let is_own = self.config.rules == Rules::Own;
        if !is_own || !is_whole || !self.is_free() {
            self.used_since = None;
            return None;
        }
        let since = *self.used_since.get_or_insert(now);
        let is_long = now.since(since) >= USED_TIME.max(self.config.rtt * INTERVAL_RTTS);
        if !is_long || !self.may_change(now) {
            return None;
        }
        self.used_since = None;
        self.raise(now, self.most.scaled(2, 1));
        self.change(now);
        Some(Why::Used)
    }

    fn lose(&mut self, now: Instant, pass: Pass) -> Why {
        self.change(now);
        let lost = u128::from(pass.lost.min(pass.sent)) * 1_000_000;
        Why::Lost((lost / u128::from(pass.sent.max(1))) as u32)
    }

    /// Returns the window in which a step of a search is judged.
    fn short_window(&self) -> Duration {
        WINDOW.max(self.config.rtt / 2)
    }

    /// Returns the window in which losses are judged. It has enough packets, within reason.
    fn window(&self) -> Duration {
        let bytes = u64::from(self.config.packet_bytes) * PACKETS_MIN;
        let time = self.rate().time_for(bytes.saturating_mul(9) / 8);
        time.clamp(WINDOW, WINDOW_MAX).max(self.config.rtt)
    }

    /// Begins a search if its time has come, and all packets arrive at the present rate.
    fn begin_search(&mut self, now: Instant, flow: Flow) -> Option<Why> {
        let is_free = self.after_losses() == Some(self.most) && self.is_free();
        let is_steady = is_free && self.uses_rate(flow);
        let is_due = now >= self.search.next && self.may_change(now);
        if !is_steady || !is_due || !arrives(flow) {
            return None;
        }
        let carried = self.rate();
        self.change(now);
        self.search.step = Some(Step {
            began: now,
            rate: carried.scaled(FIRST_STEP.0, FIRST_STEP.1),
            carried,
            is_first: true,
        });
        Some(Why::Search)
    }

    /// Judges a step of a search, when its packets have arrived.
    fn judge(&mut self, now: Instant, step: Step) -> Option<Why> {
        let flow = self.meter.latest(self.short_window(), step.began)?;
        if !self.uses_rate(flow) {
            // the source or the receiver limits the transfer
            return Some(self.end_search(now, step, step.carried));
        }
        if arrives(flow) {
            self.search.step = Some(Step {
                began: now,
                rate: step.rate.scaled(STEP.0, STEP.1),
                carried: step.rate,
                is_first: false,
            });
            return Some(Why::Rises);
        }
        let arrived = Rate::of(
            flow.arrived
                .saturating_mul(u64::from(self.config.packet_bytes)),
            flow.time,
        );
        let found = arrived.scaled(BELOW.0, BELOW.1);
        let is_more = found > step.carried.scaled(MORE.0, MORE.1);
        let found = if is_more {
            found.min(step.rate)
        } else {
            step.carried
        };
        Some(self.end_search(now, step, found))
    }

    fn end_search(&mut self, now: Instant, step: Step, found: Rate) -> Why {
        let wait = self.search.wait;
        let is_fruitless = step.is_first && found == step.carried;
        let next_wait = if is_fruitless {
            (wait * 2).min(WAIT_MAX.max(wait))
        } else {
            SEARCH_INTERVAL.max(self.config.rtt * SEARCH_RTTS)
        };
        self.search = Search {
            next: now + next_wait,
            wait: next_wait,
            step: None,
        };
        self.raise(now, found);
        (self.changed, self.rated) = (now, now);
        Why::Found
    }

    /// Allows at least `rate`.
    fn raise(&mut self, now: Instant, rate: Rate) {
        self.most = self.most.max(rate);
        self.host.raise(now, rate);
        self.disk.raise(rate);
        if let Some(losses) = &mut self.losses {
            losses.raise(now, rate);
        }
    }

    /// Reports whether both hosts and their disks take the highest rate that was found.
    fn is_free(&self) -> bool {
        self.host.rate().min(self.disk.rate()) >= self.most
    }

    /// Reports whether the sender used its rate in the window.
    fn uses_rate(&self, flow: Flow) -> bool {
        let bytes = flow
            .sent
            .saturating_mul(u64::from(self.config.packet_bytes));
        Rate::of(bytes, flow.time) >= self.rate().scaled(USED_MIN.0, USED_MIN.1)
    }

    /// Reports whether a rate change may begin. The first may come at once.
    fn may_change(&self, now: Instant) -> bool {
        self.courses == 0 || now.since(self.changed) >= self.config.rtt * INTERVAL_RTTS
    }

    const fn change(&mut self, now: Instant) {
        (self.changed, self.rated) = (now, now);
        self.courses += 1;
    }
}

/// Reports whether most packets of two windows were lost, and the remaining packets arrived evenly. On a route
/// that became longer, no packets arrive for some time.
fn is_overload(flows: [Flow; 2]) -> bool {
    let is_lost = |flow: Flow| flow.arrived < flow.sent * ARRIVED_MIN.0 / ARRIVED_MIN.1;
    let [before, last] = flows.map(|flow| flow.arrived);
    // a lost part bounds the numbers, which the peer chooses
    let is_even = || before * 3 <= last * 4 && last * 3 <= before * 4;
    last > 0 && flows.into_iter().all(is_lost) && is_even()
}

/// Reports whether all that was sent has arrived, within the accuracy of the reports.
fn arrives(flow: Flow) -> bool {
    flow.arrived.saturating_mul(100) >= flow.sent.saturating_mul(ARRIVES_PERCENT)
}

/// Minimum length of the window in which arrivals are judged.
const WINDOW: Duration = Duration::from_millis(60);
/// Maximum length of the window in which arrivals are judged, unless a round trip takes longer.
const WINDOW_MAX: Duration = Duration::from_millis(500);
/// Least part of the sent packets that must arrive; otherwise the rate is reduced before the end of the pass.
const ARRIVED_MIN: (u64, u64) = (4, 10);
/// Percentage of the sent packets that arrives on a path that carries the rate.
const ARRIVES_PERCENT: u64 = 93;
/// Part of the rate that a sender uses if nothing else limits it.
const USED_MIN: (u32, u32) = (85, 100);
/// Minimum time between two rate changes, in round trips.
const INTERVAL_RTTS: u32 = 10;
/// Multiple of a remembered rate that the rules of a protocol may reach.
const REMEMBERED_MOST: u32 = 64;
/// Time for which a protocol must use the whole rate before the rate is raised.
const USED_TIME: Duration = Duration::from_millis(100);
/// Minimum time without changes before a search.
const SEARCH_INTERVAL: Duration = Duration::from_millis(2500);
/// Minimum number of round trips without changes before a search.
const SEARCH_RTTS: u32 = 35;
/// Minimum time before the search above a remembered rate.
const REMEMBERED_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum number of round trips before the search above a remembered rate.
const REMEMBERED_RTTS: u32 = 2;
/// Maximum time between two searches, which unsuccessful searches approach.
const WAIT_MAX: Duration = Duration::from_mins(1);
/// Factor of the first step of a search. A path without more capacity must bear the excess.
const FIRST_STEP: (u32, u32) = (5, 4);
/// Factor of each later step of a search.
const STEP: (u32, u32) = (3, 2);
/// Rate that a search finds, as a fraction of the rate that arrived.
const BELOW: (u32, u32) = (98, 100);
/// Minimum ratio of a found rate to the old rate of the path; lower rates are not used.
const MORE: (u32, u32) = (105, 100);

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::super::host_rate::HostLimit;
    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const TICK: Duration = Duration::from_millis(10);
    const PACKET_BYTES: u32 = 1250;

    /// Transfer over a path that carries a rate, with reports each 10 ms.
    struct Transfer {
        rate: TransferRate,
        now: Instant,
        /// Bytes sent and arrived, and the packets of each report.
        sent: u64,
        arrived: u64,
        reports: Vec<u64>,
        changes: Vec<(Instant, Why)>,
    }

    impl Transfer {
        fn new(rules: Rules, mbps: u64, is_remembered: bool) -> Self {
            let config = RateConfig {
                rate: Rate::from_mbps(mbps),
                rules,
                is_remembered,
                rtt: RTT,
                packet_bytes: PACKET_BYTES,
            };
            Self {
                rate: TransferRate::new(Instant::ZERO, config),
                now: Instant::ZERO,
                sent: 0,
                arrived: 0,
                reports: Vec::new(),
                changes: Vec::new(),
            }
        }

        /// Sends for a time at `used` percent of the rate over a path that carries `mbps`.
        fn run(&mut self, millis: u32, mbps: u64, used: u32) {
            for _ in 0..millis / 10 {
                self.now += TICK;
                let bytes = |rate: Rate| rate.bytes_in(TICK);
                let sent = bytes(self.rate.rate().scaled(used, 100));
                self.sent += sent;
                self.arrived += sent.min(bytes(Rate::from_mbps(mbps)));
                self.reports.push(self.arrived / u64::from(PACKET_BYTES));
                let reported = self.reports.len().checked_sub(3);
                let arrived = reported.map_or(0, |nth| self.reports[nth]);
                let why = self.rate.handle_arrivals(
                    self.now,
                    self.sent / u64::from(PACKET_BYTES),
                    arrived,
                );
                self.changes.extend(why.map(|why| (self.now, why)));
            }
        }

        fn mbps(&self) -> u64 {
            self.rate.rate().as_bps() / 1_000_000
        }
    }

    #[test]
    fn remembered_rate_rises_to_the_rate_of_the_path_within_a_second() {
        let mut transfer = Transfer::new(Rules::Arrivals, 20, true);
        transfer.run(1000, 200, 100);
        let found = transfer.mbps();
        assert!(
            (185..=200).contains(&found),
            "{found}: {:?}",
            transfer.changes
        );
        assert_eq!(transfer.rate.courses(), 1);
    }

    #[test]
    fn correct_remembered_rate_is_kept() {
        let mut transfer = Transfer::new(Rules::Arrivals, 200, true);
        transfer.run(2000, 200, 100);
        assert_eq!(transfer.mbps(), 200, "{:?}", transfer.changes);
        assert_eq!(transfer.rate.courses(), 1);
    }

    #[test]
    fn pass_during_a_search_is_not_evaluated() {
        let mut transfer = Transfer::new(Rules::Arrivals, 200, true);
        let begin = transfer.rate.begin_pass(10_000);
        transfer.run(2000, 200, 100);
        assert_eq!(transfer.rate.courses(), 1);
        assert_eq!(transfer.rate.end_pass(transfer.now, begin, 500), None);
        let begin = transfer.rate.begin_pass(10_000);
        assert!(transfer.rate.end_pass(transfer.now, begin, 5000).is_some());
    }

    #[test]
    fn search_can_be_canceled() {
        let mut transfer = Transfer::new(Rules::Arrivals, 20, true);
        transfer.run(400, 200, 100);
        assert!(transfer.mbps() > 20, "{:?}", transfer.changes);
        let why = transfer.rate.cancel_search(transfer.now);
        assert_eq!(why, Some(Why::Found));
        assert!(transfer.mbps() < 200, "{:?}", transfer.changes);
        assert_eq!(transfer.rate.cancel_search(transfer.now), None);
    }

    #[test]
    fn arbitrary_numbers_of_a_peer_cause_no_panic() {
        let mut rate = Transfer::new(Rules::Arrivals, 200, false).rate;
        for nth in 1..1000_u64 {
            let arrived = if nth % 20 < 10 { 0 } else { u64::MAX };
            let now = Instant::ZERO + TICK * nth as u32;
            rate.handle_arrivals(now, nth * 100, arrived);
            assert!(rate.rate() <= Rate::from_mbps(2000));
        }
    }

    #[test]
    fn rate_that_most_packets_exceed_falls_at_once() {
        for mbps in [20, 100, 700] {
            let mut transfer = Transfer::new(Rules::Arrivals, 2000, false);
            transfer.run(1000, mbps, 100);
            let found = transfer.mbps();
            assert!(
                (mbps * 95 / 100..=mbps).contains(&found),
                "{found} of {mbps}"
            );
        }
        let mut given = Transfer::new(Rules::Given, 2000, false);
        given.run(1000, 20, 100);
        assert_eq!(given.mbps(), 2000);
    }

    #[test]
    fn search_ends_if_the_source_limits_the_transfer() {
        let mut transfer = Transfer::new(Rules::Arrivals, 20, true);
        transfer.run(300, 2000, 100);
        assert!(transfer.mbps() > 20);
        transfer.run(1000, 2000, 40);
        let last = transfer.changes.last().map(|(_, why)| *why);
        assert_eq!(last, Some(Why::Found));
        assert!(transfer.mbps() < 100, "{:?}", transfer.changes);
        let mut idle = Transfer::new(Rules::Arrivals, 20, true);
        idle.run(60_000, 2000, 40);
        assert_eq!(idle.rate.courses(), 0, "{:?}", idle.changes);
    }

    #[test]
    fn search_without_success_is_repeated_less_and_less_often() {
        let mut transfer = Transfer::new(Rules::Arrivals, 100, false);
        transfer.run(300_000, 100, 100);
        assert_eq!(transfer.mbps(), 100);
        let searches = transfer.rate.courses();
        assert!((5..=10).contains(&searches), "{searches}");
    }

    #[test]
    fn drops_of_the_host_end_a_search() {
        let mut transfer = Transfer::new(Rules::Arrivals, 20, true);
        transfer.run(300, 2000, 100);
        let rate = transfer.mbps();
        let mut facts = HostFacts {
            dropped: 1,
            ..HostFacts::default()
        };
        let ended = transfer.rate.handle_host(transfer.now, facts);
        assert_eq!(ended, Some(Why::Found));
        assert!(transfer.mbps() < rate);
        let mut changes = Vec::new();
        for _ in 0..20 {
            transfer.now += Duration::from_millis(50);
            facts.dropped += 10;
            facts.arrived += 10;
            changes.extend(transfer.rate.handle_host(transfer.now, facts));
        }
        let limited = Why::Host(HostChange::Limited(HostLimit::Drops));
        assert_eq!(changes.first(), Some(&limited));
    }

    #[test]
    fn protocol_that_uses_its_whole_rate_gets_more() {
        let mut rate = Transfer::new(Rules::Own, 20, false).rate;
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        assert_eq!(rate.handle_use(at(0), true), None);
        assert_eq!(rate.handle_use(at(100), false), None);
        assert_eq!(rate.handle_use(at(200), true), None);
        assert_eq!(rate.handle_use(at(399), true), None);
        assert_eq!(rate.handle_use(at(400), true), Some(Why::Used));
        assert_eq!(rate.rate(), Rate::from_mbps(80));
        let remembered = Transfer::new(Rules::Own, 20, true).rate;
        assert_eq!(remembered.rate(), Rate::from_mbps(20 * 64));
    }

    proptest! {
        #[test]
        fn rate_changes_have_an_interval_of_ten_round_trips(
            paths in proptest::collection::vec((1_u64..3000, 10_u32..=100, 10_u32..3000), 1..20),
            is_remembered: bool,
        ) {
            let mut transfer = Transfer::new(Rules::Arrivals, 300, is_remembered);
            let mut courses = Vec::new();
            for (mbps, used, millis) in paths {
                for _ in 0..millis / 10 {
                    let before = transfer.rate.courses();
                    transfer.run(10, mbps, used);
                    if transfer.rate.courses() > before {
                        courses.push(transfer.now);
                    }
                    prop_assert!(transfer.rate.rate().as_bps() > 0);
                }
            }
            let close = courses.windows(2).filter(|two| two[1].since(two[0]) < RTT * 10);
            prop_assert_eq!(close.count(), 0);
        }
    }
}
