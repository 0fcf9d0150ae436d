//! Rate of all lanes of a simulated transfer: after losses of the path, and after drops of the
//! receiving host.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_parts::backoff::RateBackoff;
use lighthaul_parts::loss_rate::{LossRate, Pass};
use lighthaul_session::protocol::Protocol;

/// Rate that sending lanes share.
#[derive(Debug)]
pub(crate) struct LaneRate {
    most: Rate,
    losses: Option<LossRate>,
    backoff: RateBackoff,
    after_drops: Rate,
    drops: u64,
    senders: u32,
}

/// Begin of a pass over an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassBegin {
    packets: u64,
    rate: Rate,
    drops: u64,
}

impl LaneRate {
    /// Starts at the rate of the path.
    pub(crate) fn new(now: Instant, protocol: Protocol, rate: Rate, rtt: Duration) -> Self {
        let most = if protocol == Protocol::SabulSwift {
            rate.scaled(2, 1)
        } else {
            rate
        };
        let has_passes = matches!(protocol, Protocol::Rbudp | Protocol::RbudpPlus);
        Self {
            most,
            losses: has_passes.then(|| LossRate::new(now, most, rtt)),
            backoff: RateBackoff::new(now, rate),
            after_drops: most,
            drops: 0,
            senders: 0,
        }
    }

    /// Returns the rate of all lanes together.
    pub(crate) fn whole(&self) -> Rate {
        let after_losses = self.losses.as_ref().map_or(self.most, LossRate::rate);
        after_losses.min(self.after_drops)
    }

    /// Returns the rate of one sending lane.
    pub(crate) fn part(&self) -> Rate {
        self.whole().scaled(1, self.senders.max(1))
    }

    /// Counts one more sending lane.
    pub(crate) const fn enter(&mut self) {
        self.senders += 1;
    }

    /// Counts one sending lane less.
    pub(crate) const fn leave(&mut self) {
        self.senders = self.senders.saturating_sub(1);
    }

    /// Returns the begin of a pass of `packets`.
    pub(crate) fn begin_pass(&self, packets: u64) -> PassBegin {
        PassBegin {
            packets,
            rate: self.whole(),
            drops: self.drops,
        }
    }

    /// Adapts to a pass of which `lost` packets did not arrive.
    pub(crate) fn end_pass(&mut self, now: Instant, begin: PassBegin, lost: u64) {
        let is_valid = begin.rate == self.whole() && begin.drops == self.drops;
        if let Some(losses) = self.losses.as_mut().filter(|_| is_valid) {
            let pass = Pass {
                rate: begin.rate,
                sent: begin.packets,
                lost,
            };
            losses.update(now, pass);
        }
    }

    /// Adapts to a report of the receiving host.
    pub(crate) fn handle_report(&mut self, now: Instant, dropped: bool) {
        self.drops += u64::from(dropped);
        if let Some(rate) = self.backoff.update(now, dropped) {
            self.after_drops = rate;
        }
    }
}
