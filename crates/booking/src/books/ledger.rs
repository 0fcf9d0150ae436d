//! Reservations in memory, with their indexes and the changes that are not written yet.
//!
//! [`Ledger`] keeps calendar, records, quotas and due times consistent: each edit updates all of
//! them or none. It neither locks nor writes. [`Ledger::take_batch`] returns the pending changes,
//! which must reach the store before any client hears of them.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_booking_client::json::{Event, EventKind, OutageView, Reservation, Timestamp};
use lighthaul_booking_client::reservation::{Verb, WHY_MAX, cut};
use lighthaul_calendar::{Calendar, Id, Topology};
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::memory_shares::MemoryShares;
use super::principal::{Action, Principal};
use super::record::{self, Record};
use super::repack::Repack;
use super::step_counter::StepCounter;
use super::uncommitted::Uncommitted;
use super::usage::Usage;
use crate::error::{Error, Result, SetupError};
use crate::store::{Batch, Document, DocumentKind, EventDocument};

/// All reservations, and the changes that are not written yet.
#[derive(Debug)]
// fields: indexes of the same reservations, which each change updates together
pub(super) struct Ledger {
    pub(super) config: Config,
    pub(super) calendar: Calendar,
    pub(super) records: BTreeMap<u64, Record>,
    pub(super) outages: BTreeMap<u64, OutageView>,
    /// Numbers of the latest deleted events, by owner.
    pub(super) dropped_events: BTreeMap<String, u64>,
    /// Answers by owner and idempotency key.
    pub(super) answers: BTreeMap<String, Answer>,
    /// Memory that the answers of each identity use.
    pub(super) answer_shares: MemoryShares<String>,
    /// Memory that the ended reservations of each owner use.
    pub(super) history: MemoryShares<u64>,
    pub(super) usage: Usage,
    pub(super) uncommitted: Uncommitted,
    /// Times at which reservations change by themselves.
    pub(super) due: BTreeSet<(Timestamp, u64)>,
    /// Last number that was given to a reservation, an outage, an event or a batch.
    pub(super) seq: u64,
    pub(super) repack: Repack,
    /// Number of examined steps.
    pub(super) step_counter: StepCounter,
    /// Time at which old objects are deleted next.
    pub(super) forget_at: Timestamp,
    changed: Changed,
}

/// Answer to a request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) at: Timestamp,
    /// Request, as JSON.
    pub(super) body: String,
    pub(super) reservation: Reservation,
}

/// Objects to write.
#[derive(Debug, Default)]
struct Changed {
    records: BTreeSet<u64>,
    outages: BTreeSet<u64>,
    answers: BTreeSet<String>,
    events: Vec<EventDocument>,
}

impl Changed {
    fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.outages.is_empty()
            && self.answers.is_empty()
            && self.events.is_empty()
    }

    /// Adds later changes.
    fn extend(&mut self, later: Self) {
        self.records.extend(later.records);
        self.outages.extend(later.outages);
        self.answers.extend(later.answers);
        self.events.extend(later.events);
    }
}

impl Ledger {
    /// Returns an empty ledger.
    pub(super) fn new(config: Config, topology: Topology) -> Result<Self> {
        config.check()?;
        let calendar = Calendar::new(topology, config.calendar());
        Ok(Self {
            calendar: calendar.map_err(SetupError::Calendar)?,
            config,
            records: BTreeMap::new(),
            outages: BTreeMap::new(),
            dropped_events: BTreeMap::new(),
            answers: BTreeMap::new(),
            answer_shares: MemoryShares::default(),
            history: MemoryShares::default(),
            usage: Usage::default(),
            uncommitted: Uncommitted::default(),
            due: BTreeSet::new(),
            seq: 0,
            repack: Repack::default(),
            step_counter: StepCounter::default(),
            forget_at: Timestamp(0),
            changed: Changed::default(),
        })
    }

    /// Returns an empty ledger with the same configuration.
    pub(super) fn emptied(&self) -> Result<Self> {
        Self::new(self.config.clone(), self.calendar.topology().clone())
    }

    /// Returns a reservation that the identity may see and change.
    pub(super) fn record(&self, principal: &Principal, id: u64) -> Result<&Record> {
        let record = self.records.get(&id);
        let record = record.filter(|record| principal.may(&record.reservation.owner));
        record.ok_or_else(|| Error::no_reservation(id))
    }

    /// Inserts or replaces a record, without marking it as changed.
    pub(super) fn insert(&mut self, record: Record) {
        let id = record.reservation.id;
        self.remove(id);
        self.usage.add(&self.config, &record);
        self.uncommitted.add(self.calendar.topology(), &record);
        if !record.is_live() {
            let Reservation { owner, changed, .. } = &record.reservation;
            self.history.add(owner, (*changed, id), record.bytes());
        }
        self.due.extend(record.due().map(|(at, _)| (at, id)));
        self.records.insert(id, record);
    }

    /// Removes a record.
    pub(super) fn remove(&mut self, id: u64) -> Option<Record> {
        let record = self.drop_over(id)?;
        self.usage.remove(&self.config, &record);
        self.uncommitted.remove(self.calendar.topology(), &record);
        if let Some((at, _)) = record.due() {
            self.due.remove(&(at, id));
        }
        Some(record)
    }

    /// Removes an ended record, but keeps counting its use of quotas.
    pub(super) fn drop_over(&mut self, id: u64) -> Option<Record> {
        let record = self.records.remove(&id)?;
        let Reservation { owner, changed, .. } = &record.reservation;
        self.history.remove(owner, &(*changed, id));
        Some(record)
    }

    /// Inserts or replaces the answer of a key.
    pub(super) fn insert_answer(&mut self, key: String, answer: Answer) {
        self.remove_answer(&key);
        let bytes = (key.len() + answer.body.len()) as u64 + record::bytes(&answer.reservation);
        let owner = &answer.reservation.owner;
        self.answer_shares
            .add(owner, (answer.at, key.clone()), bytes);
        self.answers.insert(key, answer);
    }

    /// Removes the answer of a key.
    pub(super) fn remove_answer(&mut self, key: &str) {
        if let Some(answer) = self.answers.remove(key) {
            let owner = &answer.reservation.owner;
            self.answer_shares
                .remove(owner, &(answer.at, key.to_owned()));
        }
    }

    /// Changes a record and marks it as changed. A refused change has no effect.
    pub(super) fn edit<T>(
        &mut self,
        id: u64,
        act: impl FnOnce(&mut Record) -> Result<T>,
    ) -> Result<T> {
        let mut record = self.remove(id).ok_or_else(|| Error::no_reservation(id))?;
        let mut new = record.clone();
        let answer = act(&mut new);
        if answer.is_ok() {
            record = new;
            self.changed.records.insert(id);
        }
        self.insert(record);
        answer
    }

    /// Changes the state of a reservation. A final state frees its capacity.
    pub(super) fn transition(&mut self, act: Action<'_>, id: u64, verb: Verb) -> Result<()> {
        let state = self.edit(id, |record| record.transition(act, verb))?;
        if state.is_final() {
            // the calendar has no booking if an outage has removed all of its steps
            let _ = self.calendar.release(act.now.instant(), Id(id));
            self.repack.is_due = true;
        }
        self.add_event(act, id, EventKind::Changed)
    }

    /// Stores the new grant of a moved reservation, and adds an event.
    pub(super) fn regrant(&mut self, act: Action<'_>, id: u64) -> Result<()> {
        let mut record = self.remove(id).ok_or_else(|| Error::no_reservation(id))?;
        if let Some(booking) = self.calendar.booking(Id(id)) {
            record.grant(booking.grant(), self.calendar.topology());
        }
        let noted = record.note(act, Verb::Move);
        self.insert(record);
        self.changed.records.insert(id);
        noted?;
        self.add_event(act, id, EventKind::Moved)
    }

    /// Adds an event about a reservation.
    pub(super) fn add_event(&mut self, act: Action<'_>, id: u64, kind: EventKind) -> Result<()> {
        let record = self
            .records
            .get(&id)
            .ok_or_else(|| Error::no_reservation(id))?;
        let seq = self.seq + 1;
        let event = Event {
            seq,
            at: act.now,
            kind,
            who: act.principal.name.clone(),
            why: cut(act.why, WHY_MAX),
            reservation: record.reservation.clone(),
        };
        self.changed.events.push(EventDocument {
            seq,
            doc: serde_json::to_string(&event)?,
            owner: event.reservation.owner,
        });
        self.seq = seq;
        Ok(())
    }

    /// Returns an unused number.
    pub(super) const fn next_id(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Makes a change. Returns its result, and true if it has failed after it changed something, so
    /// that the ledger must be loaded again.
    pub(super) fn attempt<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T>,
    ) -> (Result<T>, bool) {
        let before = std::mem::take(&mut self.changed);
        let answer = act(self);
        let made = std::mem::replace(&mut self.changed, before);
        let is_broken = answer.is_err() && !made.is_empty();
        self.changed.extend(made);
        (answer, is_broken)
    }

    /// Drops the pending changes: another instance writes them, or they belong to a failed change.
    pub(super) fn leave_unwritten(&mut self) {
        self.changed = Changed::default();
    }

    /// Marks a record, or its deletion, as changed.
    pub(super) fn note_record(&mut self, id: u64) {
        self.changed.records.insert(id);
    }

    /// Marks an outage, or its deletion, as changed.
    pub(super) fn note_outage(&mut self, id: u64) {
        self.changed.outages.insert(id);
    }

    /// Marks an answer, or its deletion, as changed.
    pub(super) fn note_answer(&mut self, key: String) {
        self.changed.answers.insert(key);
    }

    /// Returns true if an event above `after` that the identity may see was deleted.
    pub(super) fn has_dropped_event(&self, principal: &Principal, after: u64) -> bool {
        let mut dropped = self.dropped_events.iter();
        dropped.any(|(owner, seq)| *seq > after && principal.may(owner))
    }

    /// Returns the pending changes as a batch, if there are any.
    pub(super) fn take_batch(&mut self) -> Result<Option<Batch>> {
        let changed = std::mem::take(&mut self.changed);
        let mut documents = Vec::new();
        for id in changed.records {
            let record = self.records.get(&id);
            let doc = record.map(Record::doc).transpose()?;
            documents.push(Document::new(
                DocumentKind::Reservation,
                id.to_string(),
                doc,
            ));
        }
        for id in changed.outages {
            let outage = self.outages.get(&id);
            let doc = outage.map(serde_json::to_string).transpose()?;
            documents.push(Document::new(DocumentKind::Outage, id.to_string(), doc));
        }
        for key in changed.answers {
            let answer = self.answers.get(&key);
            let doc = answer.map(serde_json::to_string).transpose()?;
            documents.push(Document::new(DocumentKind::Answer, key, doc));
        }
        let mut batch = Batch {
            seq: self.seq,
            documents,
            events: changed.events,
            events_gone: Vec::new(),
        };
        if batch.is_empty() {
            return Ok(None);
        }
        // each batch has its own number, even if it gave none to its objects
        self.seq += 1;
        batch.seq = self.seq;
        Ok(Some(batch))
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_base::Rate;

    use super::*;

    #[test]
    fn change_with_records_of_any_single_kind_is_not_empty() {
        assert!(Changed::default().is_empty());
        let changes: [fn(&mut Changed); 4] = [
            |changed| _ = changed.records.insert(1),
            |changed| _ = changed.outages.insert(1),
            |changed| _ = changed.answers.insert("key".to_owned()),
            |changed| {
                changed.events.push(EventDocument {
                    seq: 1,
                    owner: "ada".to_owned(),
                    doc: "event".to_owned(),
                });
            },
        ];
        for (nth, change) in changes.into_iter().enumerate() {
            let mut changed = Changed::default();
            change(&mut changed);
            assert!(!changed.is_empty(), "{nth}");
        }
    }

    /// The changes of a reader would pile up, since only the writer writes them.
    #[test]
    fn reader_keeps_no_changes_of_the_writer() {
        let topology = Topology::single_link(Rate::from_mbps(1000), Rate::from_mbps(1));
        let mut ledger = Ledger::new(Config::default(), topology.unwrap()).unwrap();
        let deletes = |ledger: &mut Ledger| {
            ledger.note_record(1);
            ledger.note_outage(2);
            ledger.note_answer("key".to_owned());
        };
        deletes(&mut ledger);
        ledger.leave_unwritten();
        assert!(ledger.take_batch().unwrap().is_none());
        deletes(&mut ledger);
        let batch = ledger.take_batch().unwrap().unwrap();
        assert_eq!(batch.documents.len(), 3);
    }
}
