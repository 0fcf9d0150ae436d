//! Time for which owners held capacity without a commit.
//!
//! `Uncommitted` is an index of the records, like `Usage`. A reservation without a commit counts on each link of its path.
//! It counts for the time from its creation to its end, or to now, but no longer than its hold and its steps lasted. That
//! time is multiplied by a share: its highest granted rate in relation to the capacity of the link. So the two
//! directions of a circuit, which have links of their own, count once. The sum belongs to the hour in which the hold
//! ended. Reservations of operators do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_calendar::Topology;

use super::record::Record;
use crate::error::QuotaError;

/// Holds of owners without a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uncommitted {
    /// Time for which ended holds took whole links, in nanoseconds, by hour, owner and link.
    ended: BTreeMap<(u64, String, String), u128>,
    /// Holds that have not ended, by owner.
    live: BTreeMap<String, BTreeSet<u64>>,
}

/// Records of the ledger, and their links.
#[derive(Clone, Copy)]
pub(super) struct Holds<'a> {
    pub(super) records: &'a BTreeMap<u64, Record>,
    pub(super) topology: &'a Topology,
}

impl Uncommitted {
    /// Adds a record.
    pub(super) fn add(&mut self, topology: &Topology, record: &Record) {
        let owner = &record.reservation.owner;
        if record.is_live() && record.withheld.is_some() {
            let ids = self.live.entry(owner.clone()).or_default();
            ids.insert(record.reservation.id);
        }
        for (key, nanos) in ended(topology, record) {
            *self.ended.entry(key).or_default() += nanos;
        }
    }

    /// Removes a record, which must be unchanged since it was added.
    pub(super) fn remove(&mut self, topology: &Topology, record: &Record) {
        let owner = &record.reservation.owner;
        if let Some(ids) = self.live.get_mut(owner) {
            ids.remove(&record.reservation.id);
            if ids.is_empty() {
                self.live.remove(owner);
            }
        }
        for (key, nanos) in ended(topology, record) {
            if let Some(sum) = self.ended.get_mut(&key) {
                *sum = sum.saturating_sub(nanos);
                if *sum == 0 {
                    self.ended.remove(&key);
                }
            }
        }
    }

    /// Refuses a hold of links of which the owner has used `most` in this hour.
    pub(super) fn check(
        &self,
        holds: Holds<'_>,
        (owner, most): (&str, Duration),
        path: &[String],
        now: Timestamp,
    ) -> Result<(), QuotaError> {
        let hour = now.0 / HOUR;
        let mut sums: BTreeMap<String, u128> = BTreeMap::new();
        for id in self.live.get(owner).into_iter().flatten() {
            let record = holds.records.get(id);
            for (link, nanos) in
                record.map_or_else(Vec::new, |one| charge(holds.topology, one, now))
            {
                *sums.entry(link).or_default() += nanos;
            }
        }
        for link in path {
            let ended = self.ended.get(&(hour, owner.to_owned(), link.clone()));
            let sum = [ended, sums.get(link)].into_iter().flatten().sum::<u128>();
            if sum >= most.as_nanos() {
                return Err(QuotaError::Uncommitted {
                    owner: owner.to_owned(),
                    link: link.clone(),
                    most,
                    till: Timestamp(hour.saturating_add(1).saturating_mul(HOUR)),
                });
            }
        }
        Ok(())
    }

    /// Deletes hours that have ended.
    pub(super) fn forget(&mut self, before: Timestamp) {
        let first = (before.0 / HOUR, String::new(), String::new());
        self.ended = self.ended.split_off(&first);
    }
}

/// Returns the charges of a hold that has ended, by hour, owner and link.
fn ended(topology: &Topology, record: &Record) -> Vec<((u64, String, String), u128)> {
    if record.is_live() {
        return Vec::new();
    }
    let changed = record.reservation.changed;
    let (hour, owner) = (
        record.holds_till(changed).0 / HOUR,
        &record.reservation.owner,
    );
    let charges = charge(topology, record, changed).into_iter();
    charges
        .map(|(link, nanos)| ((hour, owner.clone(), link), nanos))
        .collect()
}

/// Returns the time for which a reservation without a commit has held each link of its path as a whole.
fn charge(topology: &Topology, record: &Record, now: Timestamp) -> Vec<(String, u128)> {
    let Some(withheld) = record.withheld else {
        return Vec::new();
    };
    let (till, since) = (record.holds_till(now), record.reservation.created);
    let time = till.0.saturating_sub(since.0).min(withheld.nanos);
    let links = record.reservation.path.iter().filter_map(|name| {
        let capacity = topology.about(topology.link(name)?)?.capacity.as_bps();
        let rate = withheld.rate_bps.min(capacity);
        let nanos = u128::from(time) * u128::from(rate) / u128::from(capacity);
        Some((name.clone(), nanos))
    });
    links.collect()
}

/// One hour in nanoseconds.
const HOUR: u64 = Duration::from_hours(1).as_nanos() as u64;
