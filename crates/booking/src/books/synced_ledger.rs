//! Consistency of ledger and store.
//!
//! A `SyncedLedger` has a ledger in memory and the store that several instances share. The store is
//! authoritative, and one instance at a time is its writer:
//!
//! - `ready` prepares a read. It loads the changes of the writer.
//! - `change` elects this instance, loads, makes due changes and the new one, and appends them.
//!
//! A ledger that may differ from the store is stale, and is loaded again before its next use.

use std::collections::BTreeMap;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_calendar::Topology;
use lighthaul_io::crypto::identity;
use tracing::warn;

use super::config::Config;
use super::event_index::EventIndex;
use super::ledger::Ledger;
use super::load::Unplaced;
use super::store_position::StorePosition;
use crate::error::{Error, Result, SetupError, StoreError};
use crate::store::{Batch, Document, DocumentKind, Position, Store, Writer};

/// Ledger, and the store that has the authoritative state.
#[derive(Debug)]
pub(super) struct SyncedLedger {
    pub(super) store: Box<dyn Store>,
    pub(super) ledger: Ledger,
    pub(super) now: Timestamp,
    /// True if this instance was the writer at the last election.
    pub(super) is_writer: bool,
    /// Number of the last batch that both ledger and store have.
    pub(super) news: u64,
    /// True if the ledger may differ from the store.
    is_stale: bool,
    /// Latest known position of the store.
    position: StorePosition,
    /// Events in the store, as this instance knows them.
    events: EventIndex,
    /// Number of the batch with which `events` agrees.
    events_seq: Option<u64>,
}

impl SyncedLedger {
    pub(super) fn new(store: Box<dyn Store>, topology: Topology, config: Config) -> Result<Self> {
        let position = StorePosition::open(config.position_file.clone(), config.accept_restored)?;
        Ok(Self {
            store,
            position,
            ledger: Ledger::new(config, topology)?,
            now: Timestamp(0),
            is_writer: false,
            news: 0,
            is_stale: true,
            events: EventIndex::default(),
            events_seq: None,
        })
    }

    /// Makes due changes, then the change `act`, in the ledger and in the store. If the store cannot be written, or the
    /// change fails after a part of it was made, nothing has changed. Otherwise the part would be written although the
    /// client gets an error, and a repeated request would make it twice.
    pub(super) fn change<T>(
        &mut self,
        act: impl FnOnce(&mut Ledger, Timestamp) -> Result<T>,
    ) -> Result<T> {
        self.become_writer()?;
        let now = self.now;
        self.is_stale = true;
        self.ledger.tick(now)?;
        let (answer, is_broken) = self.ledger.attempt(|ledger| act(ledger, now));
        if is_broken {
            // the ledger is stale, and is loaded again
            self.ledger.leave_unwritten();
            return answer;
        }
        self.ledger.settle(now)?;
        self.ledger.trim();
        self.write()?;
        answer
    }

    /// Sets the time of the books. Steps back of up to a second have no effect. After a larger one
    /// the ledger is read again from the store. Otherwise due changes would stop until the old time
    /// is reached again.
    pub(super) fn set_time(&mut self, now: Timestamp) {
        let back = self.now.0.saturating_sub(now.0);
        if back <= BACK_MAX {
            self.now = self.now.max(now);
            self.position.sync(self.now);
            return;
        }
        let seconds = back / 1_000_000_000;
        warn!(
            "the clock of this host was set back by {seconds} s, to {now}: the books use the new time"
        );
        self.now = now;
        self.is_stale = true;
    }

    /// Refuses a topology that lacks links of existing reservations.
    pub(super) fn check(&mut self) -> Result<()> {
        let unplaced = self.catch_up()?;
        unplaced
            .check()
            .map_err(|why| SetupError::Mismatch(why).into())
    }

    /// Makes the ledger readable.
    pub(super) fn ready(&mut self) -> Result<()> {
        if !self.is_writer || self.is_stale {
            self.is_writer = false;
            self.catch_up()?;
            // the writer deletes old objects in the store
            self.ledger.forget_unwritten(self.now);
        }
        Ok(())
    }

    /// Makes this instance the writer, with an up-to-date ledger.
    fn become_writer(&mut self) -> Result<()> {
        let was_writer = std::mem::take(&mut self.is_writer);
        if let Writer::Other(url) = self.store.elect()? {
            return Err(Error::OtherWriter { url });
        }
        // a new writer must load everything, to find reservations that no longer fit
        self.is_stale |= !was_writer;
        let unplaced = self.catch_up()?;
        if let Err(why) = unplaced.check() {
            self.is_stale = true;
            return Err(StoreError::Mismatch(why).into());
        }
        if self.events_seq != Some(self.news) {
            self.events = EventIndex::of(self.store.event_sizes()?);
            self.events_seq = Some(self.news);
        }
        if !unplaced.slow.is_empty() {
            self.is_stale = true;
            self.ledger.give_up(self.now, unplaced)?;
            self.write()?;
        }
        if !was_writer {
            let epoch = identity::token();
            self.store.begin_epoch(&epoch)?;
            let seq = self.news;
            self.position.keep(Position { epoch, seq });
        }
        self.is_writer = true;
        Ok(())
    }

    /// Loads the changes of the store into the ledger.
    fn catch_up(&mut self) -> Result<Unplaced> {
        let mark = self.store.position()?;
        let is_restored = self.position.check(self.store.as_mut(), &mark)?;
        if !self.is_stale && !is_restored && mark.seq == self.news {
            self.position.keep(mark);
            return Ok(Unplaced::default());
        }
        let is_emptied = self.is_stale || is_restored;
        if is_emptied {
            self.ledger = self.ledger.emptied()?;
        }
        if is_restored {
            self.events_seq = None;
        }
        self.is_stale = true;
        let after = if is_emptied { 0 } else { self.news };
        let batch = self.store.changes(after)?;
        self.news = batch.seq;
        let unplaced = self.ledger.load(self.now, batch)?;
        self.ledger.seq = self.ledger.seq.max(self.position.floor());
        self.position.keep(mark);
        self.is_stale = false;
        Ok(unplaced)
    }

    /// Writes the changes of the ledger to the store.
    fn write(&mut self) -> Result<()> {
        if let Some(mut batch) = self.ledger.take_batch()? {
            // a failed write may be stored or not
            self.events_seq = None;
            self.drop_events(&mut batch)?;
            self.position.reserve(batch.seq);
            if let Err(why) = self.store.append(self.news, &batch) {
                // the next change has to become the writer again, which shows if the store works
                self.is_writer = false;
                return Err(why);
            }
            self.news = batch.seq;
            self.events_seq = Some(batch.seq);
            self.position.advance(batch.seq);
        }
        self.is_stale = false;
        Ok(())
    }

    /// Adds the deletion of events above the limits to a batch, with a note for clients that have not read them.
    fn drop_events(&mut self, batch: &mut Batch) -> Result<()> {
        for event in &batch.events {
            let bytes = event.doc.len() as u64;
            self.events.add(&event.owner, event.seq, bytes);
        }
        let gone = self.events.trim(&self.ledger.config);
        batch.events_gone = gone.iter().map(|(_, seq)| *seq).collect();
        // the numbers of an owner grow
        let last: BTreeMap<String, u64> = gone.into_iter().collect();
        for (owner, seq) in last {
            let doc = Some(seq.to_string());
            // a database refuses some characters of names
            let key = serde_json::to_string(&owner)?;
            let document = Document::new(DocumentKind::DroppedEvent, key, doc);
            batch.documents.push(document);
            self.ledger.dropped_events.insert(owner, seq);
        }
        Ok(())
    }
}

/// Longest step back of the clock that has no effect, in nanoseconds.
const BACK_MAX: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use lighthaul_base::Rate;
    use lighthaul_booking_client::json::{Bytes, NewReservation};

    use super::super::principal::Principal;
    use super::*;
    use crate::store::sqlite::Sqlite;
    use lighthaul_booking_client::role::Role;

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000_000);

    /// Returns an empty ledger of one link, a user, and a request that fits.
    fn setting() -> (SyncedLedger, Principal, NewReservation) {
        let topology = Topology::single_link(Rate::from_mbps(1000), Rate::from_mbps(1));
        let store = Box::new(Sqlite::in_memory().unwrap());
        let mut synced = SyncedLedger::new(store, topology.unwrap(), Config::default()).unwrap();
        synced.set_time(NOW);
        let ada = Principal::new("ada", Role::User);
        let new = NewReservation {
            from: Some("a".to_owned()),
            to: Some("b".to_owned()),
            size: Some(Bytes(1_000_000)),
            ..NewReservation::default()
        };
        (synced, ada, new)
    }

    #[test]
    fn change_that_fails_halfway_is_rolled_back() {
        let (mut synced, ada, new) = setting();
        let failed: Result<()> = synced.change(|ledger, now| {
            ledger.reserve(now, &ada, &new, Some("key"))?;
            Err(Error::no_reservation(7))
        });
        assert!(failed.is_err());
        assert_eq!(synced.store.position().unwrap().seq, 0);
        synced.ready().unwrap();
        assert!(synced.ledger.records.is_empty() && synced.ledger.answers.is_empty());
        // the repeated request books once
        let key = Some("key");
        let booked = [(); 2].map(|()| {
            let reserve = synced.change(|ledger, now| ledger.reserve(now, &ada, &new, key));
            reserve.unwrap().id
        });
        assert_eq!(booked[0], booked[1]);
        synced.ready().unwrap();
        assert_eq!(synced.ledger.records.len(), 1);
    }

    #[test]
    fn refused_change_keeps_the_earlier_due_changes() {
        let (mut synced, ada, new) = setting();
        let reserve = synced.change(|ledger, now| ledger.reserve(now, &ada, &new, None));
        let id = reserve.unwrap().id;
        // the hold of 120 s has expired
        synced.set_time(Timestamp(NOW.0 + 200_000_000_000));
        let before = synced.store.position().unwrap().seq;
        let refused: Result<()> = synced.change(|_, _| Err(Error::no_reservation(7)));
        assert!(refused.is_err());
        assert!(synced.store.position().unwrap().seq > before);
        assert!(!synced.ledger.records[&id].is_live());
    }
}
