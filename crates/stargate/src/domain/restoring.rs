//! Restart of a domain from its records.

use alloc::collections::BTreeMap;

use lighthaul_base::Instant;

use super::machine::Domain;
use super::reservation::{Reservation, Stage};
use crate::config::Config;
use crate::key::Key;
use crate::outbox::Output;
use crate::record::{Record, StoredReservation, StoredStage};
use crate::refusal::Refusal;
use crate::resources::Resources;
use crate::topology::Topology;

impl<R: Resources> Domain<R> {
    /// Returns the domain as its records describe it. `resources` must not contain its bookings yet.
    ///
    /// Requests that were not decided are aborted. Committed ones are programmed again.
    pub fn restore(
        (config, topology, resources): (Config, Topology, R),
        seed: u64,
        records: impl IntoIterator<Item = Record>,
        now: Instant,
    ) -> Self {
        let mut stored = BTreeMap::new();
        for record in records {
            record.apply(&mut stored);
        }
        let mut domain = Self::new(config, topology, resources, seed);
        domain.keep_only_committed(now, &stored);
        // committed bookings first: held ones may have expired
        let is_committed = |one: &StoredReservation| one.stage == StoredStage::Committed;
        let (first, rest): (BTreeMap<Key, _>, BTreeMap<Key, _>) =
            stored.into_iter().partition(|(_, one)| is_committed(one));
        for (_, stored) in first.into_iter().chain(rest) {
            domain.restore_one(now, stored);
        }
        domain
    }

    /// Removes vectors from the devices that no committed reservation has.
    fn keep_only_committed(&mut self, now: Instant, stored: &BTreeMap<Key, StoredReservation>) {
        let running = stored
            .values()
            .filter(|one| one.stage == StoredStage::Committed && now < one.vector.end())
            .flat_map(|one| (0..one.segments.len()).map(|nth| (one.key, nth as u8)));
        let circuits = running.collect();
        self.outbox.push(Output::KeepOnly { circuits });
    }

    fn restore_one(&mut self, now: Instant, stored: StoredReservation) {
        let (stage, is_source) = match stored.stage {
            StoredStage::Holding => (Stage::Holding, stored.upstream.is_none()),
            StoredStage::Committed => (Stage::Committed, stored.upstream.is_none()),
            StoredStage::Closing => (Stage::Closing, stored.upstream.is_none()),
        };
        let mut reservation = Reservation::new(stored, stage);
        reservation.may_be_committed = true;
        reservation.refusal = Refusal::Restarted;
        match stage {
            Stage::Committed => self.restore_committed(now, &mut reservation),
            Stage::Closing => {
                self.ask_children(now, &mut reservation);
                reservation.check_closed(now);
            }
            Stage::Holding | Stage::Held | Stage::Committing | Stage::Closed => {
                if is_source {
                    self.close(now, &mut reservation, Refusal::Restarted);
                } else if now >= reservation.stored.hold_till {
                    self.close(now, &mut reservation, Refusal::Expired);
                } else if let Err(refusal) = self.hold_again(now, &reservation) {
                    self.close(now, &mut reservation, refusal);
                } else {
                    self.enter(now, &mut reservation, Stage::Holding);
                    self.check_held(now, &mut reservation);
                }
            }
        }
        self.keep(reservation);
    }

    fn restore_committed(&mut self, now: Instant, reservation: &mut Reservation) {
        let stored = &reservation.stored;
        let (end, key) = (stored.vector.end(), stored.key);
        let steps = stored.vector.steps();
        reservation.ranges_done = steps.partition_point(|step| step.till <= now);
        if now < end {
            if let Err(refusal) = self.hold_again(now, reservation) {
                self.close(now, reservation, refusal);
                return;
            }
            self.resources.commit(now, key);
            self.program(reservation);
            if reservation.stored.upstream.is_none() {
                self.report_committed(reservation);
            }
        }
        // compares with the neighbors at once
        reservation.retry_at = now;
        self.committed_timeout(now, reservation);
    }

    fn hold_again(&mut self, now: Instant, reservation: &Reservation) -> Result<(), Refusal> {
        let stored = &reservation.stored;
        self.resources
            .hold(now, stored.key, &stored.segments, &stored.vector)
    }
}
