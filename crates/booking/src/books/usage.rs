//! Capacity that owners use, and checks of their quotas.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Instant;
use lighthaul_booking_client::json::{Step, Timestamp};

use super::config::Config;
use super::rate_sum::RateSum;
use super::record::{Record, work};
use crate::error::QuotaError;

/// Use of capacity by each owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Reservations that have not ended, by owner.
    live: BTreeMap<String, BTreeSet<u64>>,
    /// Reservations with a circuit that have not ended, by interface.
    circuits: BTreeMap<String, BTreeSet<u64>>,
    /// Sum of the rates of reservations that have not ended, by owner.
    rates: BTreeMap<String, RateSum>,
    /// Work that is or was booked, by window and owner.
    work: BTreeMap<(u64, String), u128>,
}

impl Usage {
    /// Adds a record.
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

    /// Removes a record, which must be unchanged since it was added.
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

    /// Returns the sum of the rates of an owner.
    pub(crate) fn rates(&self, owner: &str) -> Option<&RateSum> {
        self.rates.get(owner)
    }

    /// Returns all reservations with a circuit.
    pub(crate) fn all_circuits(&self) -> impl Iterator<Item = u64> + '_ {
        self.circuits.values().flatten().copied()
    }

    /// Returns the reservations with a circuit at an interface.
    pub(crate) fn circuits(&self, interface: &str) -> impl Iterator<Item = u64> + '_ {
        self.circuits.get(interface).into_iter().flatten().copied()
    }

    /// Refuses a reservation above the quota of an owner.
    pub(crate) fn check_count(&self, config: &Config, owner: &str) -> Result<(), QuotaError> {
        let most = config.quota_of(owner).reservations;
        if self.live.get(owner).map_or(0, BTreeSet::len) >= most {
            let owner = owner.to_owned();
            return Err(QuotaError::Reservations { owner, most });
        }
        Ok(())
    }

    /// Refuses steps that exceed the bytes of an owner in a window, in addition to those counted
    /// already.
    pub(crate) fn check_work(
        &self,
        config: &Config,
        owner: &str,
        steps: &[Step],
    ) -> Result<(), QuotaError> {
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
                return Err(QuotaError::Bytes {
                    owner: owner.to_owned(),
                    most,
                    from: Timestamp(window * nanos),
                    till: Timestamp(window.saturating_add(1).saturating_mul(nanos)),
                    left,
                });
            }
        }
        Ok(())
    }

    /// Deletes windows that have ended.
    pub(crate) fn forget(&mut self, config: &Config, before: Timestamp) {
        let first = before.0 / (config.window.as_nanos() as u64);
        self.work = self.work.split_off(&(first, String::new()));
    }
}

/// Removes a number from a set, and the set if it is empty then.
fn drop_one(sets: &mut BTreeMap<String, BTreeSet<u64>>, of: &str, id: u64) {
    if let Some(set) = sets.get_mut(of) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(of);
        }
    }
}

/// Returns the work of steps in each window.
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

/// Work of one byte: bits times nanoseconds per second.
const WORK_PER_BYTE: u128 = 8_000_000_000;
