//! Pace of a copy: the rate of all lanes, after losses and within a timetable.
//!
//! A measured rate follows the loss of each pass ([`Course`]); a rate that the user gave does not. Both are reduced when the
//! receiving host drops datagrams ([`RateBackoff`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::drive::Share;
use lighthaul_parts::backoff::RateBackoff;
use lighthaul_parts::course::{Course, Pass};

use lighthaul_session::offer::Offer;
use lighthaul_session::protocol::Protocol;

use super::settings::Settings;

/// Rate of the lanes, which is known once the path is set up.
#[derive(Debug)]
pub(super) struct Pace {
    share: Arc<Share>,
    rates: Mutex<Option<Rates>>,
}

#[derive(Debug)]
struct Rates {
    started: Instant,
    /// Rate at the start.
    most: Rate,
    backoff: RateBackoff,
    /// Rate after drops of the receiving host.
    after_drops: Rate,
    /// Rate after losses on the path, if that was measured.
    course: Option<Course>,
}

impl Rates {
    fn rate(&self) -> Rate {
        let course = self.course.as_ref().map_or(self.most, Course::rate);
        course.min(self.after_drops)
    }
}

impl Pace {
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
        let most = Rate::from_bps(offer.rate_bps).unwrap_or(Rate::UNLIMITED);
        self.share.set(settings.limited(most));
        let has_passes = matches!(offer.protocol, Protocol::Rbudp | Protocol::RbudpPlus);
        let rtt = Duration::from_micros(offer.rtt_us.into());
        let is_measured = settings.rate.is_none() && has_passes;
        *self.lock() = Some(Rates {
            started: now,
            most,
            backoff: RateBackoff::new(now, most),
            after_drops: most,
            course: is_measured.then(|| Course::new(now, most, rtt)),
        });
    }

    /// Returns the time at which the lanes started.
    pub(super) fn started(&self) -> Option<Instant> {
        self.lock().as_ref().map(|rates| rates.started)
    }

    /// Returns the rate that a pass over an object begins with, if that follows losses.
    pub(super) fn of_pass(&self) -> Option<Rate> {
        let rates = self.lock();
        rates.as_ref()?.course.as_ref().map(Course::rate)
    }

    /// Adapts the rate to the result of a pass.
    pub(super) fn receive_pass(&self, now: Instant, pass: Pass) {
        let mut rates = self.lock();
        let course = rates.as_mut().and_then(|rates| rates.course.as_mut());
        if let Some(course) = course {
            course.update(now, pass);
        }
    }

    /// Adapts the rate. `dropped` is true if the receiving host has dropped datagrams since the last call.
    pub(super) fn receive_report(&self, now: Instant, dropped: bool) {
        if let Some(rates) = self.lock().as_mut() {
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
