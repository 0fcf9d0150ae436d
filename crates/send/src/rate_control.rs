//! Control of the rate of all lanes, after losses and within a timetable.
//!
//! A measured rate follows the loss of each pass ([`LossRate`]); a rate that the user gave does not. Both are reduced when
//! the receiving host drops datagrams ([`RateBackoff`]). Each function that changes the rate returns a sentence about it for
//! `--explain`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::drive::Share;
use lighthaul_parts::backoff::RateBackoff;
use lighthaul_parts::loss_rate::{LossRate, Pass};
use lighthaul_session::offer::Offer;
use lighthaul_session::protocol::Protocol;

use super::settings::Settings;

/// Rate of the lanes, which is known once the path is set up.
#[derive(Debug)]
pub(super) struct RateControl {
    share: Arc<Share>,
    rates: Mutex<Option<Rates>>,
}

#[derive(Debug)]
struct Rates {
    started: Instant,
    /// Highest rate.
    most: Rate,
    backoff: RateBackoff,
    /// Rate after drops of the receiving host.
    after_drops: Rate,
    /// Number of reports with such drops.
    drops: u64,
    /// Rate after losses on the path, if that was measured.
    losses: Option<LossRate>,
    /// Rate that was last explained.
    explained: Rate,
}

/// Begin of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassBegin {
    packets: u64,
    /// Rate of all lanes.
    rate: Rate,
    /// Number of reports with drops of the receiving host.
    drops: u64,
}

impl Rates {
    fn rate(&self) -> Rate {
        let after_losses = self.losses.as_ref().map_or(self.most, LossRate::rate);
        after_losses.min(self.after_drops)
    }
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

    /// Starts at the rate of `offer`.
    pub(super) fn start(&self, now: Instant, offer: &Offer, settings: &Settings) {
        let path_rate = Rate::from_bps(offer.rate_bps).unwrap_or(Rate::UNLIMITED);
        let finds_rate = offer.protocol == Protocol::SabulSwift && settings.rate.is_none();
        let most = if finds_rate {
            path_rate.scaled(2, 1)
        } else {
            path_rate
        };
        self.share.set(settings.limited(most));
        let has_passes = matches!(offer.protocol, Protocol::Rbudp | Protocol::RbudpPlus);
        let rtt = Duration::from_micros(offer.rtt_us.into());
        let is_measured = settings.rate.is_none() && has_passes;
        *self.lock() = Some(Rates {
            started: now,
            most,
            // a host that drops datagrams cannot take more than the measured rate
            backoff: RateBackoff::new(now, path_rate),
            after_drops: most,
            drops: 0,
            losses: is_measured.then(|| LossRate::new(now, most, rtt)),
            explained: self.share.whole(),
        });
    }

    /// Returns the time at which the lanes started.
    pub(super) fn started(&self) -> Option<Instant> {
        self.lock().as_ref().map(|rates| rates.started)
    }

    /// Returns the rate that is left after losses, if it follows them.
    pub(super) fn after_losses(&self) -> Option<Rate> {
        let rates = self.lock();
        rates.as_ref()?.losses.as_ref().map(LossRate::rate)
    }

    /// Returns the begin of a pass of `packets`.
    pub(super) fn begin_pass(&self, packets: u64) -> PassBegin {
        PassBegin {
            packets,
            rate: self.share.whole(),
            drops: self.lock().as_ref().map_or(0, |rates| rates.drops),
        }
    }

    /// Adapts the rate to a pass of which `lost` packets did not arrive. If the rate has changed meanwhile, or the
    /// receiving host has dropped datagrams, the pass says nothing about the path.
    pub(super) fn end_pass(
        &self,
        begin: PassBegin,
        lost: u64,
        now: Instant,
        settings: &Settings,
    ) -> Option<String> {
        let mut rates = self.lock();
        let rates = rates.as_mut()?;
        if begin.rate != self.share.whole() || begin.drops != rates.drops {
            return None;
        }
        let pass = Pass {
            rate: begin.rate,
            sent: begin.packets,
            lost,
        };
        rates.losses.as_mut()?.update(now, pass)?;
        let lost = lost as f64 * 100.0 / begin.packets.max(1) as f64;
        self.set(rates, settings, &format!("{lost:.1} % of a pass were lost"))
    }

    /// Adapts the rate. `dropped` is true if the receiving host has dropped datagrams since the last call.
    pub(super) fn receive_report(
        &self,
        now: Instant,
        dropped: bool,
        settings: &Settings,
    ) -> Option<String> {
        let mut rates = self.lock();
        let rates = rates.as_mut()?;
        rates.drops += u64::from(dropped);
        rates.after_drops = rates.backoff.update(now, dropped)?;
        let why = if dropped {
            "the receiving host drops datagrams"
        } else {
            "the receiving host no longer drops datagrams"
        };
        self.set(rates, settings, why)
    }

    /// Keeps the rate within the current limit of the timetable.
    pub(super) fn limit(&self, settings: &Settings) -> Option<String> {
        self.set(
            self.lock().as_mut()?,
            settings,
            "--limit has another rate for this time",
        )
    }

    /// Sets the rate of the lanes. Returns a sentence if it is no longer near the one that was last explained.
    fn set(&self, rates: &mut Rates, settings: &Settings, why: &str) -> Option<String> {
        let rate = settings.limited(rates.rate());
        self.share.set(rate);
        let before = rates.explained;
        let is_near = rate > before.scaled(9, 10) && before > rate.scaled(9, 10);
        if rate == before || (is_near && rate != rates.most) {
            return None;
        }
        rates.explained = rate;
        let verb = if rate < before { "falls" } else { "rises" };
        Some(format!(
            "the rate {verb} from {before} to {rate}, because {why}"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Rates>> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        control.start(Instant::ZERO, &offer, settings);
        control
    }

    #[test]
    fn drops_of_the_host_end_a_rate_above_the_measured_one() {
        let settings = Settings::default();
        let control = started(Protocol::SabulSwift, &settings);
        assert_eq!(control.share().whole(), Rate::from_mbps(2000));
        let text = control.receive_report(at(1000), true, &settings).unwrap();
        assert_eq!(
            text,
            "the rate falls from 2.000 Gb/s to 950.000 Mb/s, because the receiving host drops datagrams"
        );
        assert_eq!(control.share().whole(), Rate::from_mbps(950));
        let asked = Settings {
            rate: Some(GIGABIT),
            ..Settings::default()
        };
        let control = started(Protocol::SabulSwift, &asked);
        assert_eq!(control.share().whole(), GIGABIT);
    }

    #[test]
    fn small_changes_are_explained_together() {
        let settings = Settings::default();
        let control = started(Protocol::Rbudp, &settings);
        let drop = |millis| control.receive_report(at(millis), true, &settings);
        assert_eq!(drop(1000), None);
        assert_eq!(control.share().whole(), Rate::from_mbps(950));
        assert_eq!(drop(1100), None, "too early for another change");
        assert_eq!(drop(3000), None);
        let text = drop(5000).unwrap();
        assert!(
            text.starts_with("the rate falls from 1.000 Gb/s to 857.375 Mb/s,"),
            "{text}"
        );
        let mut all = Vec::new();
        for nth in 0..9 {
            all.extend(control.receive_report(at(7000 + nth * 2000), false, &settings));
        }
        let why = "because the receiving host no longer drops datagrams";
        let steps = ["857.375 Mb/s to 965.544 Mb/s", "965.544 Mb/s to 1.000 Gb/s"];
        assert_eq!(
            all,
            steps.map(|step| format!("the rate rises from {step}, {why}"))
        );
    }

    #[test]
    fn loss_of_a_pass_is_explained() {
        let settings = Settings::default();
        let control = started(Protocol::Rbudp, &settings);
        let begin = control.begin_pass(10_000);
        let text = control.end_pass(begin, 3000, at(1000), &settings).unwrap();
        assert!(
            text.ends_with("because 30.0 % of a pass were lost"),
            "{text}"
        );
        // the pass began before the change
        assert_eq!(control.end_pass(begin, 3000, at(9000), &settings), None);
    }
}
