//! Control of the rate of all lanes, by the rules of a [`TransferRate`] and within a timetable.
//!
//! While a disk limits the copy, one lane sends at a time, unless the lanes share a circuit.
//!
//! Each function that changes the rate returns a sentence about it for `--explain`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::drive::Share;
use lighthaul_parts::disk_rate::{Disk, DiskChange, DiskFacts};
use lighthaul_parts::host_rate::{HostChange, HostFacts, HostLimit};
use lighthaul_parts::transfer_rate::{PassBegin, RateConfig, Rules, TransferRate, Why};
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::protocol::Protocol;

use super::settings::Settings;

/// Rate of the lanes, known after the set-up of the path.
#[derive(Debug)]
pub(super) struct RateControl {
    share: Arc<Share>,
    rates: Mutex<Option<Rates>>,
}

#[derive(Debug)]
struct Rates {
    started: Instant,
    rate: TransferRate,
    /// Rate that was last explained.
    explained: Rate,
    /// True if a circuit determines the rate.
    is_circuit: bool,
}

impl RateControl {
    pub(super) fn new() -> Self {
        Self {
            share: Arc::new(Share::new(Rate::UNLIMITED)),
            rates: Mutex::default(),
        }
    }

    /// Returns the rate for the lanes.
    pub(super) fn share(&self) -> Arc<Share> {
        Arc::clone(&self.share)
    }

    /// Starts at the rate of `offer`. `is_remembered` is true if an earlier copy measured it.
    pub(super) fn start(
        &self,
        now: Instant,
        offer: &Offer,
        (settings, is_remembered): (&Settings, bool),
    ) {
        let rules = rules(offer.protocol, settings);
        let offered = Rate::from_bps(offer.rate_bps).unwrap_or(Rate::UNLIMITED);
        let rate = if offer.protocol.is_datagrams() {
            offered
        } else {
            settings.rate.unwrap_or(Rate::UNLIMITED)
        };
        let head_len = offer.protocol.head_len() as u32;
        let rate = TransferRate::new(
            now,
            RateConfig {
                rate,
                rules,
                is_remembered,
                rtt: Duration::from_micros(offer.rtt_us.into()),
                packet_bytes: offer.packet_len + head_len + offer::AROUND_LEN + IP_UDP_LEN,
            },
        );
        self.share.set(settings.limited(rate.rate()));
        let mut rates = self.lock();
        let started = rates.as_ref().map_or(now, |rates| rates.started);
        *rates = Some(Rates {
            started,
            rate,
            explained: self.share.whole(),
            is_circuit: offer.protocol == Protocol::Vbtp,
        });
    }

    /// Follows the rules of the protocol of `offer` from now on. These may be the same.
    pub(super) fn change(
        &self,
        now: Instant,
        (before, offer): (Protocol, &Offer),
        settings: (&Settings, bool),
    ) {
        if rules(before, settings.0) != rules(offer.protocol, settings.0) {
            self.start(now, offer, settings);
        }
    }

    /// Returns the time at which the lanes started.
    pub(super) fn started(&self) -> Option<Instant> {
        self.lock().as_ref().map(|rates| rates.started)
    }

    /// Returns the rate that the path carries after losses and searches, if the rules follow them.
    pub(super) fn found(&self) -> Option<Rate> {
        self.lock().as_ref()?.rate.after_losses()
    }

    /// Returns the state at the start of a pass of `packets` packets.
    pub(super) fn begin_pass(&self, packets: u64) -> Option<PassBegin> {
        let rates = self.lock();
        rates.as_ref().map(|rates| rates.rate.begin_pass(packets))
    }

    /// Adapts the rate to a pass that lost `lost` packets.
    pub(super) fn end_pass(
        &self,
        begin: PassBegin,
        lost: u64,
        now: Instant,
        settings: &Settings,
    ) -> Option<String> {
        let mut rates = self.lock();
        let rates = rates.as_mut()?;
        // a limit by the time of day hides what the path carries
        if self.share.whole() != rates.rate.rate() {
            return None;
        }
        let why = rates.rate.end_pass(now, begin, lost)?;
        self.set(rates, settings, why)
    }

    /// Adapts the rate to the counters of the receiving host.
    pub(super) fn handle_host(
        &self,
        now: Instant,
        facts: HostFacts,
        settings: &Settings,
    ) -> Option<String> {
        let mut rates = self.lock();
        let rates = rates.as_mut()?;
        let why = rates.rate.handle_host(now, facts)?;
        self.set(rates, settings, why)
    }

    /// Adapts the rate and the number of lanes to the disks of both hosts.
    pub(super) fn handle_disks(
        &self,
        now: Instant,
        facts: DiskFacts,
        settings: &Settings,
    ) -> Option<String> {
        let mut rates = self.lock();
        let rates = rates.as_mut().filter(|rates| !rates.is_circuit)?;
        let before = rates.rate.slow_disk().is_some();
        let why = rates.rate.handle_disks(now, facts)?;
        let is_slow = rates.rate.slow_disk().is_some();
        let lanes = match (before, is_slow) {
            (false, true) => Some("one lane sends at a time"),
            (true, false) => Some("all lanes send again"),
            _ => None,
        };
        match (self.set(rates, settings, why), lanes) {
            (Some(rate), Some(lanes)) => Some(format!("{rate}; {lanes}")),
            (None, Some(lanes)) => Some(format!("{lanes}, because {}", reason(why))),
            (rate, None) => rate,
        }
    }

    /// Returns the maximum number of lanes that have an object at a time.
    pub(super) fn lanes_max(&self) -> usize {
        let rates = self.lock();
        let slow = rates.as_ref().and_then(|rates| rates.rate.slow_disk());
        slow.map_or(usize::MAX, |_| 1)
    }

    /// Adapts the rate to the number of packets sent by now, and the number that arrived by the latest report.
    pub(super) fn handle_arrivals(
        &self,
        now: Instant,
        (sent, arrived): (u64, u64),
        settings: &Settings,
    ) -> Option<String> {
        let mut rates = self.lock();
        let rates = rates.as_mut()?;
        if self.share.whole() != rates.rate.rate() {
            // a limit by the time of day is below what a search wants
            let why = rates.rate.cancel_search(now)?;
            return self.set(rates, settings, why);
        }
        let why = rates.rate.handle_arrivals(now, sent, arrived)?;
        self.set(rates, settings, why)
    }

    /// Adapts the rate to a protocol that has its own rate control; `is_whole` if that uses the full rate.
    pub(super) fn handle_use(
        &self,
        now: Instant,
        is_whole: bool,
        settings: &Settings,
    ) -> Option<String> {
        let mut rates = self.lock();
        let rates = rates.as_mut()?;
        // a limit by the time of day hides what the path carries
        let is_whole = is_whole && self.share.whole() == rates.rate.rate();
        let why = rates.rate.handle_use(now, is_whole)?;
        self.set(rates, settings, why)
    }

    /// Keeps the rate within the current limit of the timetable.
    pub(super) fn limit(&self, settings: &Settings) -> Option<String> {
        let mut rates = self.lock();
        let rates = rates.as_mut()?;
        self.apply(rates, settings, "--limit has another rate for this time")
    }

    /// Sets the rate of the lanes. Returns a sentence if it is no longer near the one that was last explained.
    fn set(&self, rates: &mut Rates, settings: &Settings, why: Why) -> Option<String> {
        self.apply(rates, settings, &reason(why))
    }

    fn apply(&self, rates: &mut Rates, settings: &Settings, because: &str) -> Option<String> {
        let rate = settings.limited(rates.rate.rate());
        self.share.set(rate);
        let before = rates.explained;
        let is_near = rate > before.scaled(9, 10) && before > rate.scaled(9, 10);
        if rate == before || (is_near && rate != rates.rate.most()) {
            return None;
        }
        rates.explained = rate;
        let verb = if rate < before { "falls" } else { "rises" };
        Some(format!(
            "the rate {verb} from {before} to {rate}, because {because}"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Rates>> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the reason for a change.
fn reason(why: Why) -> String {
    let text = match why {
        Why::Host(change) => host_text(change),
        Why::Disk(change) => disk_text(change),
        Why::Lost(ppm) => {
            let percent = f64::from(ppm) / 1e4;
            return format!("{percent:.1} % of the sent packets were lost");
        }
        Why::Search => "the path may carry more by now",
        Why::Rises => "all packets arrive",
        Why::Found => "packets arrive at this rate",
        Why::Used => "the protocol uses the whole rate",
    };
    text.to_owned()
}

/// Returns the reason for a change that a disk causes.
const fn disk_text(change: DiskChange) -> &'static str {
    match change {
        DiskChange::Limited(Disk::Source) => "the copy waits for the disk of the sending host",
        DiskChange::Limited(Disk::Target) => "the copy waits for the disk of the receiving host",
        DiskChange::Freed(Disk::Source) => "the disk of the sending host keeps up",
        DiskChange::Freed(Disk::Target) => "the disk of the receiving host keeps up",
    }
}

/// Returns the reason for a change that the receiving host causes.
const fn host_text(change: HostChange) -> &'static str {
    match change {
        HostChange::Limited(HostLimit::Drops) => "the receiving host drops datagrams",
        HostChange::Limited(HostLimit::Processors) => {
            "the receiving host drops datagrams, and waits for its processors"
        }
        HostChange::Freed(HostLimit::Drops | HostLimit::Processors) => {
            "the receiving host no longer drops datagrams"
        }
    }
}

/// Returns the rules for the rate of a protocol.
const fn rules(protocol: Protocol, settings: &Settings) -> Rules {
    match protocol {
        _ if settings.rate.is_some() => Rules::Given,
        Protocol::Rbudp | Protocol::RbudpPlus => Rules::Arrivals,
        Protocol::SabulSwift => Rules::Own,
        Protocol::Tcp | Protocol::Ptcp | Protocol::Vbtp | Protocol::Sabul => Rules::Given,
    }
}

/// Bytes of the headers of IP and UDP.
const IP_UDP_LEN: u32 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: Rate = Rate::from_mbps(1000);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Starts at a measured rate of 1 Gb/s.
    fn started(protocol: Protocol, settings: &Settings) -> RateControl {
        let offer = Offer {
            protocol,
            packet_len: 1408,
            rate_bps: 1_000_000_000,
            settle_us: 0,
            rtt_us: 100_000,
            udp: true,
            lanes: 2,
            joins: 0,
        };
        let control = RateControl::new();
        control.start(Instant::ZERO, &offer, (settings, false));
        control
    }

    /// Receiving host that takes a given rate, and drops the rest.
    #[derive(Default)]
    struct Host {
        millis: u64,
        facts: HostFacts,
    }

    impl Host {
        /// Runs for a time, and returns the reasons of all changes.
        fn run(
            &mut self,
            (control, settings): (&RateControl, &Settings),
            millis: u64,
            takes: Rate,
        ) -> Vec<String> {
            let mut all = Vec::new();
            for _ in 0..millis / 50 {
                self.millis += 50;
                let packets = |rate: Rate| rate.bytes_in(Duration::from_millis(50)) / 1484;
                let sent = packets(control.share().whole());
                let arrived = sent.min(packets(takes));
                self.facts.arrived += arrived;
                self.facts.dropped += sent - arrived;
                all.extend(control.handle_host(at(self.millis), self.facts, settings));
            }
            all
        }
    }

    #[test]
    fn rate_follows_a_host_that_drops_datagrams_and_returns() {
        for protocol in [Protocol::SabulSwift, Protocol::Rbudp] {
            let settings = Settings::default();
            let control = started(protocol, &settings);
            let before = control.share().whole();
            let mut host = Host::default();
            let texts = host.run((&control, &settings), 2000, GIGABIT.scaled(1, 2));
            let found = control.share().whole().as_mbps_f64();
            assert!((475.0..=530.0).contains(&found), "{found}");
            assert!(texts[0].starts_with(&format!("the rate falls from {before} to ")));
            let because = ", because the receiving host drops datagrams";
            assert!(texts[0].ends_with(because), "{texts:?}");
            let texts = host.run((&control, &settings), 30_000, before);
            assert_eq!(control.share().whole(), before, "{texts:?}");
            let last = texts.last().unwrap();
            let because = ", because the receiving host no longer drops datagrams";
            assert!(last.ends_with(because), "{texts:?}");
        }
        let asked = Settings {
            rate: Some(GIGABIT),
            ..Settings::default()
        };
        let control = started(Protocol::SabulSwift, &asked);
        assert_eq!(control.share().whole(), GIGABIT);
    }

    #[test]
    fn small_rate_changes_are_reported_together() {
        let settings = Settings::default();
        let control = started(Protocol::Rbudp, &settings);
        let mut host = Host::default();
        let texts = host.run((&control, &settings), 5000, GIGABIT.scaled(98, 100));
        assert_eq!(texts, [""; 0]);
        assert!(control.share().whole() < GIGABIT);
        let texts = host.run((&control, &settings), 5000, GIGABIT.scaled(80, 100));
        let text = texts.first().unwrap();
        assert!(
            text.starts_with("the rate falls from 1.000 Gb/s to "),
            "{text}"
        );
    }

    #[test]
    fn loss_of_a_pass_is_explained() {
        let settings = Settings::default();
        let control = started(Protocol::Rbudp, &settings);
        let begin = control.begin_pass(10_000).unwrap();
        let text = control.end_pass(begin, 3000, at(1000), &settings).unwrap();
        assert!(
            text.ends_with("because 30.0 % of the sent packets were lost"),
            "{text}"
        );
        // the pass began before the change
        assert_eq!(control.end_pass(begin, 3000, at(9000), &settings), None);
    }
}
