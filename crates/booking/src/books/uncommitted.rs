//! Time for which owners held capacity without a commit.
//!
//! `Uncommitted` is an index of the ended records, like `Usage`. A reservation that ended without a commit counts for the
//! time from its creation to its end. That time is multiplied by a share: its highest rate in relation to the capacity
//! of its narrowest link. The sum belongs to the hour in which it ended. Reservations of operators do not count.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::reservation::Verb;
use lighthaul_calendar::Topology;

use super::config::Config;
use super::record::Record;
use crate::error::QuotaError;

/// Time for which owners held whole links without a commit, in nanoseconds, by hour and owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uncommitted(BTreeMap<(u64, String), u128>);

impl Uncommitted {
    /// Adds a record.
    pub(super) fn add(&mut self, topology: &Topology, record: &Record) {
        if let Some((hour, nanos)) = held(topology, record) {
            let owner = record.reservation.owner.clone();
            *self.0.entry((hour, owner)).or_default() += nanos;
        }
    }

    /// Removes a record, which must be unchanged since it was added.
    pub(super) fn remove(&mut self, topology: &Topology, record: &Record) {
        if let Some((hour, nanos)) = held(topology, record) {
            let key = (hour, record.reservation.owner.clone());
            if let Some(sum) = self.0.get_mut(&key) {
                *sum = sum.saturating_sub(nanos);
                if *sum == 0 {
                    self.0.remove(&key);
                }
            }
        }
    }

    /// Refuses a hold of an owner that has used the quota of this hour.
    pub(super) fn check(
        &self,
        config: &Config,
        owner: &str,
        now: Timestamp,
    ) -> Result<(), QuotaError> {
        let (most, hour) = (config.quota_of(owner).uncommitted, now.0 / HOUR);
        let sum = self.0.get(&(hour, owner.to_owned()));
        if sum.copied().unwrap_or_default() < most.as_nanos() {
            return Ok(());
        }
        Err(QuotaError::Uncommitted {
            owner: owner.to_owned(),
            most,
            till: Timestamp(hour.saturating_add(1).saturating_mul(HOUR)),
        })
    }

    /// Deletes hours that have ended.
    pub(super) fn forget(&mut self, before: Timestamp) {
        self.0 = self.0.split_off(&(before.0 / HOUR, String::new()));
    }
}

/// Returns the hour in which a reservation ended without a commit, and the time for which it held a whole link.
fn held(topology: &Topology, record: &Record) -> Option<(u64, u128)> {
    let reservation = &record.reservation;
    let mut journal = reservation.journal.iter();
    let was_committed = journal.any(|line| line.verb == Verb::Commit);
    if record.is_live() || record.by_operator || was_committed {
        return None;
    }
    let links = reservation.path.iter();
    let links = links.filter_map(|name| topology.about(topology.link(name)?));
    let capacity = links.map(|link| link.capacity.as_bps()).min()?;
    let rate = reservation.request.rate_max?.0.min(capacity);
    let time = reservation.changed.0.saturating_sub(reservation.created.0);
    let nanos = u128::from(time) * u128::from(rate) / u128::from(capacity);
    Some((reservation.changed.0 / HOUR, nanos))
}

/// One hour in nanoseconds.
const HOUR: u64 = Duration::from_hours(1).as_nanos() as u64;
