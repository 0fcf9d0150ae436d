//! One circuit of a controller, with its state at the device.

use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::circuit_timer::Timer;

use crate::circuit::Circuit;
use crate::error::Error;
use crate::event::{Ending, Event};

/// Circuit that a controller keeps or removes.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) circuit: Circuit,
    /// End of the lease, after which the circuit has no rate.
    pub(crate) lease_till: Instant,
    pub(crate) installed: Installed,
    /// Timer of the open circuit, if the device has timers.
    pub(crate) timer: Option<Timer>,
    /// Time at which the next change is due.
    pub(crate) due: Instant,
    pub(crate) stage: Stage,
}

/// State of a circuit at the device, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Installed {
    Nothing,
    Rate(Option<Rate>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Kept,
    Ending(Ending),
    /// The failure was reported. The circuit is removed at this time, and later if that fails.
    Failed(Instant),
}

impl Entry {
    /// Returns the rate at the device in b/s.
    pub(crate) fn installed_bps(&self) -> u64 {
        match self.installed {
            Installed::Rate(rate) => bps_of(rate),
            Installed::Nothing => 0,
        }
    }

    /// Returns the end of the vector or of the lease.
    pub(crate) fn end(&self) -> Instant {
        self.circuit.trc.end().min(self.lease_till)
    }

    /// Returns the time of the next change of the rate.
    pub(crate) fn next_change(&self, now: Instant) -> Instant {
        let change = self.circuit.trc.next_change(now);
        change.unwrap_or(Instant::NEVER).min(self.end())
    }

    /// Returns the time at which the timer at the device must be renewed.
    pub(crate) fn renew_at(&self, now: Instant) -> Instant {
        let is_open = self.stage == Stage::Kept && self.installed_bps() > 0;
        let timer = self.timer.filter(|_| is_open);
        timer.map_or(Instant::NEVER, |timer| {
            timer.renew_at(self.next_change(now))
        })
    }

    /// Returns true if both have packets in common at the same time.
    pub(crate) fn conflicts_with(&self, other: &Circuit) -> bool {
        let mine = &self.circuit;
        let meet = mine.trc.start() < other.trc.end() && other.trc.start() < mine.trc.end();
        mine.id != other.id && mine.flow.overlaps(&other.flow) && meet && self.stage == Stage::Kept
    }

    /// Marks the circuit as failed, to be removed at `at`.
    pub(crate) fn fail(&mut self, at: Instant, why: &Error) -> Event {
        self.stage = Stage::Failed(at);
        Event::Failed(self.circuit.id, why.to_string())
    }
}

/// Returns a rate in b/s.
pub(crate) fn bps_of(rate: Option<Rate>) -> u64 {
    rate.map_or(0, Rate::as_bps)
}
