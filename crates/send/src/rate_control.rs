//! Control of the rate of all lanes, after losses and within a timetable.
//!
//! A measured rate follows the loss of each pass ([`LossRate`]); a rate that the user gave does not. Both are reduced when
//! the receiving host drops datagrams ([`RateBackoff`]).

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
    pub(super) fn end_pass(&self, begin: PassBegin, lost: u64, now: Instant, settings: &Settings) {
        let mut rates = self.lock();
        let Some(rates) = rates.as_mut() else {
            return;
        };
        if begin.rate != self.share.whole() || begin.drops != rates.drops {
            return;
        }
        let pass = Pass {
            rate: begin.rate,
            sent: begin.packets,
            lost,
        };
        let losses = rates.losses.as_mut();
        if losses.and_then(|losses| losses.update(now, pass)).is_some() {
            self.share.set(settings.limited(rates.rate()));
        }
    }

    /// Adapts the rate. `dropped` is true if the receiving host has dropped datagrams since the last call.
    pub(super) fn receive_report(&self, now: Instant, dropped: bool) {
        if let Some(rates) = self.lock().as_mut() {
            rates.drops += u64::from(dropped);
            let changed = rates.backoff.update(now, dropped);
            rates.after_drops = changed.unwrap_or(rates.after_drops);
        }
    }

    /// Keeps the rate within the current limit of the timetable.
    pub(super) fn limit(&self, settings: &Settings) {
        if let Some(rates) = self.lock().as_ref() {
            self.share.set(settings.limited(rates.rate()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Rates>> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_the_host_end_a_rate_above_the_measured_one() {
        let offer = Offer {
            protocol: Protocol::SabulSwift,
            packet_len: 1408,
            rate_bps: 1_000_000_000,
            settle_us: 0,
            rtt_us: 100_000,
            udp: true,
            lanes: 2,
            joins: 0,
        };
        let settings = Settings::default();
        let control = RateControl::new();
        control.start(Instant::ZERO, &offer, &settings);
        assert_eq!(control.share().whole(), Rate::from_mbps(2000));
        control.receive_report(Instant::ZERO + Duration::from_secs(1), true);
        control.limit(&settings);
        assert_eq!(control.share().whole(), Rate::from_mbps(950));
        let asked = Settings {
            rate: Some(Rate::from_mbps(1000)),
            ..Settings::default()
        };
        control.start(Instant::ZERO, &offer, &asked);
        assert_eq!(control.share().whole(), Rate::from_mbps(1000));
    }
}
