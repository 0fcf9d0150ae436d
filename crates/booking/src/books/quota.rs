//! What owners have, beside what they may have.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Instant;

use super::config::Config;
use super::rates::Rates;
use super::record::{Record, work};
use crate::error::{Error, Result};
use crate::word::{Moment, Step};

/// What each owner has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Reservations that are not over, by their owners.
    live: BTreeMap<String, BTreeSet<u64>>,
    /// Those of them that have a circuit, by its interface.
    circuits: BTreeMap<String, BTreeSet<u64>>,
    /// Rates of each owner's reservations that are not over.
    rates: BTreeMap<String, Rates>,
    /// How much in each window, for which capacity was or is booked.
    work: BTreeMap<(u64, String), u128>,
}

impl Tally {
    /// Counts a record.
    pub(crate) fn add(&mut self, config: &Config, record: &Record) {
        let owner = &record.reservation.owner;
        let id = record.reservation.id;
        if record.is_live() {
            self.live.entry(owner.clone()).or_default().insert(id);
            let rates = self.rates.entry(owner.clone()).or_default();
            rates.add(&record.reservation.steps);
            if let Some(flow) = &record.reservation.request.flow {
                let circuits = self.circuits.entry(flow.interface.clone());
                circuits.or_default().insert(id);
            }
        }
        for (window, work) in parts(config, &record.reservation.steps) {
            *self.work.entry((window, owner.clone())).or_default() += work;
        }
    }

    /// Counts a record no longer, just as it was when it was counted.
    pub(crate) fn remove(&mut self, config: &Config, record: &Record) {
        let owner = &record.reservation.owner;
        let id = record.reservation.id;
        if record.is_live() {
            drop_one(&mut self.live, owner, id);
            if let Some(rates) = self.rates.get_mut(owner) {
                rates.remove(&record.reservation.steps);
                if rates.is_empty() {
                    self.rates.remove(owner);
                }
            }
            if let Some(flow) = &record.reservation.request.flow {
                drop_one(&mut self.circuits, &flow.interface, id);
            }
        }
        for (window, work) in parts(config, &record.reservation.steps) {
            let key = (window, owner.clone());
            if let Some(sum) = self.work.get_mut(&key) {
                *sum = sum.saturating_sub(work);
                if *sum == 0 {
                    self.work.remove(&key);
                }
            }
        }
    }

    /// Rates of an owner's reservations that are not over.
    pub(crate) fn rates(&self, owner: &str) -> Option<&Rates> {
        self.rates.get(owner)
    }

    /// All reservations that have a circuit, by their interfaces.
    pub(crate) fn all_circuits(&self) -> impl Iterator<Item = u64> + '_ {
        self.circuits.values().flatten().copied()
    }

    /// Those that have a circuit at an interface.
    pub(crate) fn circuits(&self, interface: &str) -> impl Iterator<Item = u64> + '_ {
        self.circuits.get(interface).into_iter().flatten().copied()
    }

    /// Refuses one more reservation than an owner may have.
    pub(crate) fn check_count(&self, config: &Config, owner: &str) -> Result<()> {
        let most = config.quota_of(owner).reservations;
        if self.live.get(owner).map_or(0, BTreeSet::len) >= most {
            return Err(Error::Quota(format!(
                "{owner} has {most} reservations, as many as one may have: release or terminate one first"
            )));
        }
        Ok(())
    }

    /// Refuses more in some window than an owner may have; what the owner has now counts already.
    pub(crate) fn check_work(&self, config: &Config, owner: &str, steps: &[Step]) -> Result<()> {
        let most = config.quota_of(owner).bytes;
        for (window, work) in parts(config, steps) {
            let had = self
                .work
                .get(&(window, owner.to_owned()))
                .copied()
                .unwrap_or(0);
            if (had + work) / WORK_PER_BYTE > u128::from(most) {
                let nanos = config.window.as_nanos() as u64;
                let left = u128::from(most).saturating_sub(had / WORK_PER_BYTE);
                return Err(Error::Quota(format!(
                    "{owner} may book {most} bytes from {} till {}, of which {left} are left: ask for less, or for another time",
                    Moment(window * nanos),
                    Moment(window.saturating_add(1).saturating_mul(nanos))
                )));
            }
        }
        Ok(())
    }

    /// Forgets windows that are over.
    pub(crate) fn forget(&mut self, config: &Config, before: Moment) {
        let first = before.0 / (config.window.as_nanos() as u64);
        self.work = self.work.split_off(&(first, String::new()));
    }
}

/// Takes a number out of a set, and an empty set out of the map.
fn drop_one(sets: &mut BTreeMap<String, BTreeSet<u64>>, of: &str, id: u64) {
    if let Some(set) = sets.get_mut(of) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(of);
        }
    }
}

/// What steps carry in each window.
fn parts(config: &Config, steps: &[Step]) -> BTreeMap<u64, u128> {
    let nanos = config.window.as_nanos() as u64;
    let mut parts = BTreeMap::new();
    for step in steps.iter().filter(|step| step.from < step.till) {
        for window in step.from.0 / nanos..=(step.till.0 - 1) / nanos {
            let from = Instant::from_nanos(window * nanos);
            let part = work(step, from, from + config.window);
            *parts.entry(window).or_default() += part;
        }
    }
    parts
}

/// The work of one byte: bits times nanoseconds in a second.
const WORK_PER_BYTE: u128 = 8_000_000_000;
