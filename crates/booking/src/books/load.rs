//! Loading of documents from a store.

use std::collections::BTreeSet;

use lighthaul_booking_client::json::{OutageView, Timestamp};
use lighthaul_booking_client::reservation::Verb;
use lighthaul_calendar::{Calendar, Id, Outage, SavedBooking};
use lighthaul_circuit::driver::GUARD_MAX;
use tracing::warn;

use super::config::Config;
use super::ledger::{Answer, Ledger};
use super::outage::is_ahead;
use super::principal::{Action, Principal};
use super::record::Record;
use super::request;
use crate::error::{Error, Result, TopologyMismatch};
use crate::store::{Batch, Document, DocumentKind};
use lighthaul_booking_client::role::Role;

/// Reservations that do not fit the current topology.
#[derive(Debug, Default)]
pub(super) struct Unplaced {
    /// Reservations on links with too little capacity, and the reason.
    pub(super) slow: Vec<(u64, String)>,
    /// Reservations that use missing parts of the topology.
    gone: Vec<u64>,
    /// Names of the missing parts.
    lacks: BTreeSet<String>,
}

impl Unplaced {
    /// Refuses to start if reservations use missing parts: the topology file may be the wrong one.
    pub(super) fn check(&self) -> std::result::Result<(), TopologyMismatch> {
        if self.gone.is_empty() {
            return Ok(());
        }
        Err(TopologyMismatch {
            lacks: self.lacks.iter().cloned().collect(),
            reservations: self.gone.clone(),
        })
    }
}

impl Ledger {
    /// Loads the changes of a store. Existing grants are kept, even if the same requests would get other grants now.
    pub(super) fn load(&mut self, now: Timestamp, batch: Batch) -> Result<Unplaced> {
        let at = now.instant();
        let (mut records, mut outages) = (Vec::new(), Vec::new());
        for document in batch.documents {
            let Document {
                kind,
                id,
                doc: Some(doc),
            } = document
            else {
                continue;
            };
            match kind {
                DocumentKind::Reservation => records.push(Record::read(&doc)?),
                DocumentKind::Outage => outages.push(serde_json::from_str(&doc)?),
                DocumentKind::Answer => {
                    self.insert_answer(id, serde_json::from_str::<Answer>(&doc)?);
                }
                DocumentKind::DroppedEvent => {
                    let owner = serde_json::from_str(&id)?;
                    self.dropped_events
                        .insert(owner, serde_json::from_str(&doc)?);
                }
            }
        }
        let guard_begin = Timestamp(now.0.saturating_sub(GUARD_MAX.as_nanos() as u64));
        // removes all changed reservations first, because one may now use what another had
        let mut ended = Vec::new();
        for (nth, record) in records.iter().enumerate() {
            let id = Id(record.reservation.id);
            let removed = if record.is_live() {
                self.calendar.remove(at, id)
            } else {
                self.calendar.release(at, id).map(drop)
            };
            if removed.is_err() && record.had_circuit_after(guard_begin) {
                ended.push(nth);
            }
        }
        for outage in outages {
            self.load_outage(now, outage)?;
        }
        let mut unplaced = Unplaced::default();
        let is_live = |record: &&Record| record.is_live();
        for record in records.iter().filter(is_live) {
            self.keep(now, record, &mut unplaced);
        }
        for record in ended.into_iter().map(|nth| &records[nth]) {
            self.keep_guard_time(now, record);
        }
        for record in records {
            self.insert(record);
        }
        self.seq = batch.seq;
        Ok(unplaced)
    }

    /// Books the grant of a record again, or notes the reason of a refusal.
    fn keep(&mut self, now: Timestamp, record: &Record, unplaced: &mut Unplaced) {
        let Err(why) = restore(&mut self.calendar, &self.config, now, record) else {
            return;
        };
        let id = record.reservation.id;
        let lacks = request::lacks(&record.reservation, self.calendar.topology());
        if lacks.is_empty() {
            unplaced.slow.push((id, why.to_string()));
        } else if !record.is_over(now) {
            unplaced.gone.push(id);
            unplaced.lacks.extend(lacks);
        }
    }

    /// Books what the devices of a reservation may still use after its end. Promises were booked before, so that they come
    /// first.
    fn keep_guard_time(&mut self, now: Timestamp, record: &Record) {
        let id = Id(record.reservation.id);
        // without room, or on links that are gone, there is nothing to wait for
        if restore(&mut self.calendar, &self.config, now, record).is_ok() {
            let _ = self.calendar.release(now.instant(), id);
        }
    }

    /// Fails reservations for which links have too little capacity.
    pub(super) fn give_up(&mut self, now: Timestamp, unplaced: Unplaced) -> Result<()> {
        let principal = Principal::new("calendar", Role::Operator);
        for (id, why) in unplaced.slow {
            let why = format!("the topology no longer has the capacity for it: {why}");
            warn!("reservation {id} has failed: {why}");
            let act = Action {
                now,
                principal: &principal,
                why: &why,
            };
            self.transition(act, id, Verb::Fail)?;
        }
        Ok(())
    }

    fn load_outage(&mut self, now: Timestamp, view: OutageView) -> Result<()> {
        // the outage may have been canceled
        let _ = self.calendar.lift(Id(view.id));
        let link = self.calendar.topology().link(&view.link);
        if let Some(link) = link.filter(|_| is_ahead(&view, now)) {
            let outage = Outage {
                link,
                from: view.from.instant(),
                till: view.till.instant(),
            };
            self.calendar.outage(now.instant(), Id(view.id), outage)?;
        }
        self.outages.insert(view.id, view);
        Ok(())
    }
}

fn restore(
    calendar: &mut Calendar,
    config: &Config,
    now: Timestamp,
    record: &Record,
) -> Result<()> {
    let reservation = &record.reservation;
    let topology = calendar.topology();
    let owner = config.number_of(&reservation.owner);
    let kept = SavedBooking {
        sequence: record.nth,
        request: request::read(&reservation.request, topology, owner)?,
        path: request::path_of(reservation, topology)?,
        steps: record.granted(),
    };
    calendar
        .restore(now.instant(), Id(reservation.id), kept)
        .map_err(Error::from)
}
