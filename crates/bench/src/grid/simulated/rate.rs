//! Rate of all lanes of a simulated transfer, by the rules of a copy.

use std::collections::VecDeque;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_parts::disk_rate::DiskFacts;
use lighthaul_parts::host_rate::HostFacts;
use lighthaul_parts::transfer_rate::{PassBegin, RateConfig, Rules, TransferRate};
use lighthaul_session::protocol::Protocol;

use super::agreement::{AROUND, TransferConfig};

/// Rate that sending lanes share.
#[derive(Debug)]
pub(crate) struct LaneRate {
    rate: TransferRate,
    senders: u32,
    /// Reports in transit, with the arrival time of each.
    reports: VecDeque<(Instant, (HostFacts, DiskFacts))>,
    facts: HostFacts,
    way: Duration,
}

impl LaneRate {
    /// Starts at the rate of the path.
    pub(crate) fn new(
        now: Instant,
        (protocol, rate): (Protocol, Rate),
        config: &TransferConfig,
    ) -> Self {
        let rules = match protocol {
            Protocol::SabulSwift => Rules::Own,
            Protocol::Rbudp | Protocol::RbudpPlus => Rules::Arrivals,
            Protocol::Tcp | Protocol::Ptcp | Protocol::Vbtp | Protocol::Sabul => Rules::Given,
        };
        let head_len = protocol.head_len() as u32;
        let rate_config = RateConfig {
            rate,
            rules,
            is_remembered: config.known.is_some(),
            rtt: config.rtt,
            packet_bytes: config.packet_len(protocol) + head_len + AROUND,
        };
        Self {
            rate: TransferRate::new(now, rate_config),
            senders: 0,
            reports: VecDeque::new(),
            facts: HostFacts::default(),
            way: config.rtt / 2,
        }
    }

    /// Returns the rate of all lanes together.
    pub(crate) fn whole(&self) -> Rate {
        self.rate.rate()
    }

    /// Returns the number of rate changes.
    pub(crate) const fn courses(&self) -> u64 {
        self.rate.courses()
    }

    /// Returns the rate of one sending lane.
    pub(crate) fn part(&self) -> Rate {
        self.whole().scaled(1, self.senders.max(1))
    }

    /// Returns the maximum number of lanes that have an object at a time.
    pub(crate) const fn lanes_max(&self) -> usize {
        match self.rate.slow_disk() {
            Some(_) => 1,
            None => usize::MAX,
        }
    }

    /// Counts one more sending lane.
    pub(crate) const fn enter(&mut self) {
        self.senders += 1;
    }

    /// Counts one sending lane less.
    pub(crate) const fn leave(&mut self) {
        self.senders = self.senders.saturating_sub(1);
    }

    /// Returns the state at the start of a pass of `packets` packets.
    pub(crate) fn begin_pass(&self, packets: u64) -> PassBegin {
        self.rate.begin_pass(packets)
    }

    /// Adapts to a pass of which `lost` packets did not arrive.
    pub(crate) fn end_pass(&mut self, now: Instant, begin: PassBegin, lost: u64) {
        self.rate.end_pass(now, begin, lost);
    }

    /// Adapts to a protocol with its own rate control; true if it uses the whole rate.
    pub(crate) fn handle_use(&mut self, now: Instant, is_whole: bool) {
        self.rate.handle_use(now, is_whole);
    }

    /// Sends a report of the receiver, and adapts to the latest report that has arrived.
    pub(crate) fn handle_report(&mut self, now: Instant, sent: u64, facts: (HostFacts, DiskFacts)) {
        self.reports.push_back((now + self.way, facts));
        while let Some((_, (facts, disks))) = self.reports.pop_front_if(|(at, _)| *at <= now) {
            self.facts = facts;
            self.rate.handle_host(now, facts);
            self.rate.handle_disks(now, disks);
        }
        self.rate.handle_arrivals(now, sent, self.facts.arrived);
    }
}
