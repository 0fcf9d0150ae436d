//! Interface of the books: every request about reservations, outages and calendars is a method of
//! [`Books`].
//!
//! One lock serializes all changes. A method that returns success has written its change to the
//! store. After a failed write the ledger is read again, so that memory never promises more than
//! the store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_booking_client::json::{
    CalendarView, Change, Event, NewOutage, NewReservation, OutageView, Page, Quote, Reservation,
    Timestamp, TopologyView,
};
use lighthaul_booking_client::reservation::Verb;
use lighthaul_calendar::{Calendar, Topology};

use super::config::Config;
use super::ledger::Ledger;
use super::policy::Policy;
use super::principal::{Action, Principal};
use super::synced_ledger::SyncedLedger;
use super::view::Filter;
use crate::error::{Error, Result};
use crate::store::{Store, Writer};

/// Reservations of all owners, and their calendar.
///
/// Changes are made one at a time, and each answer is in the store. If the store cannot be written,
/// nothing has changed, and the ledger is read again. An instance that is not the writer follows
/// the store and answers queries.
pub struct Books {
    synced: Mutex<SyncedLedger>,
    /// Policies as in the ledger: of listed identities, and of all others. They can be read while the store hangs.
    policies: Mutex<(BTreeMap<String, Policy>, Policy)>,
    /// Clock.
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    listeners: Mutex<Vec<Listener>>,
    status: Mutex<Status>,
}

/// Status of the books at the last check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// URL of the instance that writes, if this instance does not.
    pub writer: Option<String>,
    /// Time of the check.
    pub at: Timestamp,
    /// Reason for which the check failed.
    pub why: Option<String>,
}

type Listener = Box<dyn Fn() + Send + Sync>;

/// Events after a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// Events that the client may see, oldest first.
    pub events: Vec<Event>,
    /// Number after which the next request continues.
    pub seq: u64,
}

impl Books {
    /// Opens the books in a store.
    pub fn open(
        store: Box<dyn Store>,
        topology: Topology,
        config: Config,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Self> {
        let policies = (config.policies.clone(), config.policy.clone());
        let books = Self {
            policies: Mutex::new(policies),
            synced: Mutex::new(SyncedLedger::new(store, topology, config)?),
            clock: Box::new(clock),
            listeners: Mutex::default(),
            status: Mutex::default(),
        };
        books.lock().check()?;
        books.tick()?;
        Ok(books)
    }

    /// Reserves capacity, which is held until the commit. A repeated request with the same key gets
    /// the same answer.
    pub fn reserve(
        &self,
        principal: &Principal,
        new: &NewReservation,
        key: Option<&str>,
    ) -> Result<Reservation> {
        self.change(|ledger, now| ledger.reserve(now, principal, new, key))
    }

    /// Returns the grant that a request would get now.
    pub fn quote(&self, principal: &Principal, new: &NewReservation) -> Result<Quote> {
        self.read(|ledger, now| ledger.quote(now, principal, new))
    }

    /// Commits a reservation.
    pub fn commit(&self, principal: &Principal, id: u64, why: &str) -> Result<Reservation> {
        self.change_one(principal, id, |ledger, now| {
            ledger.commit(
                Action {
                    now,
                    principal,
                    why,
                },
                id,
            )
        })
    }

    /// Provisions the circuit of a reservation.
    pub fn provision(&self, principal: &Principal, id: u64, why: &str) -> Result<Reservation> {
        self.transition(principal, id, why, Verb::Provision)
    }

    /// Removes the circuit of a reservation, which keeps its capacity and can be provisioned again.
    pub fn deprovision(&self, principal: &Principal, id: u64, why: &str) -> Result<Reservation> {
        self.transition(principal, id, why, Verb::Deprovision)
    }

    /// Releases the remaining capacity of a reservation.
    pub fn release(&self, principal: &Principal, id: u64, why: &str) -> Result<Reservation> {
        self.transition(principal, id, why, Verb::Release)
    }

    /// Cancels a reservation.
    pub fn terminate(&self, principal: &Principal, id: u64, why: &str) -> Result<Reservation> {
        self.transition(principal, id, why, Verb::Terminate)
    }

    /// Extends a reservation.
    pub fn extend(&self, principal: &Principal, id: u64, change: &Change) -> Result<Reservation> {
        self.resize(principal, id, change, true)
    }

    /// Shrinks a reservation.
    pub fn shrink(&self, principal: &Principal, id: u64, change: &Change) -> Result<Reservation> {
        self.resize(principal, id, change, false)
    }

    fn resize(
        &self,
        principal: &Principal,
        id: u64,
        change: &Change,
        longer: bool,
    ) -> Result<Reservation> {
        let why = &change.why;
        self.change_one(principal, id, |ledger, now| {
            let action = Action {
                now,
                principal,
                why,
            };
            ledger.resize(action, id, change, longer)
        })
    }

    /// Notes that a device reports packets on the circuit of a reservation.
    pub fn activate(&self, principal: &Principal, id: u64, why: &str) -> Result<()> {
        self.change(|ledger, now| {
            ledger.activate(
                Action {
                    now,
                    principal,
                    why,
                },
                id,
            )
        })
    }

    /// Fails a reservation because a device reports a broken circuit. Its capacity is freed.
    pub fn fail(&self, principal: &Principal, id: u64, why: &str) -> Result<()> {
        self.change(|ledger, now| {
            ledger.fail(
                Action {
                    now,
                    principal,
                    why,
                },
                id,
            )
        })
    }

    /// Returns a reservation.
    pub fn get(&self, principal: &Principal, id: u64) -> Result<Reservation> {
        self.look(principal, id, Reservation::clone)
    }

    /// Returns what `look` reads in a reservation, without a copy of the whole.
    pub fn look<T>(
        &self,
        principal: &Principal,
        id: u64,
        look: impl FnOnce(&Reservation) -> T,
    ) -> Result<T> {
        self.read(|ledger, _| Ok(look(&ledger.record(principal, id)?.reservation)))
    }

    /// Returns reservations with numbers above `part.0`, at most `part.1` of them.
    pub fn list(
        &self,
        principal: &Principal,
        filter: &Filter,
        part: (u64, usize),
    ) -> Result<Page<Reservation>> {
        self.read(|ledger, _| ledger.list(principal, filter, part))
    }

    /// Plans an outage.
    pub fn outage(&self, principal: &Principal, new: &NewOutage) -> Result<OutageView> {
        self.change(|ledger, now| ledger.outage(now, principal, new))
    }

    /// Cancels or ends an outage.
    pub fn lift(&self, principal: &Principal, id: u64) -> Result<OutageView> {
        self.change(|ledger, now| ledger.lift(now, principal, id))
    }

    /// Returns the outages that have not ended.
    pub fn outages(&self) -> Result<Vec<OutageView>> {
        self.read(|ledger, now| Ok(ledger.outages_ahead(now)))
    }

    /// Returns the free and the booked capacity of a link in a range of time.
    pub fn calendar(
        &self,
        principal: &Principal,
        link: &str,
        window: (Timestamp, Timestamp),
    ) -> Result<CalendarView> {
        self.read(|ledger, now| ledger.calendar_view(principal, link, now, window))
    }

    /// Returns the hosts, switches and links.
    pub fn topology(&self) -> Result<TopologyView> {
        self.read(|ledger, _| Ok(ledger.topology_view()))
    }

    /// Returns at most `most` events after a number. Fails if a later event that the identity may see is no longer kept.
    pub fn events_since(&self, principal: &Principal, seq: u64, most: usize) -> Result<EventPage> {
        let events = self.lock().store.events(seq, most.clamp(1, EVENTS_MAX))?;
        // afterwards, since the writer may delete events meanwhile
        self.check_events(principal, seq)?;
        let last = events.last().map_or(seq, |(last, _)| *last);
        let events = events.iter().map(|(_, doc)| serde_json::from_str(doc));
        let mut events = events.collect::<serde_json::Result<Vec<Event>>>()?;
        events.retain(|event| principal.may(&event.reservation.owner));
        Ok(EventPage { events, seq: last })
    }

    /// Fails if an event after a number that the identity may see is no longer kept.
    pub fn check_events(&self, principal: &Principal, after: u64) -> Result<()> {
        let has_dropped = self.read(|ledger, _| Ok(ledger.has_dropped_event(principal, after)))?;
        if has_dropped {
            return Err(Error::EventsDropped { after });
        }
        Ok(())
    }

    /// Returns the number of the latest change.
    pub fn seq(&self) -> Result<u64> {
        self.read(|ledger, _| Ok(ledger.seq))
    }

    /// Adds a callback for changes. It must not call the books.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
    }

    /// Replaces the policies: of `listed` identities, and of all others. Existing grants stay.
    pub fn set_policies(&self, usual: Policy, listed: BTreeMap<String, Policy>) {
        *self.policies_lock() = (listed.clone(), usual.clone());
        let config = &mut self.lock().ledger.config;
        (config.policy, config.policies) = (usual, listed);
    }

    /// Returns the policy of an owner, without waiting for the store.
    pub fn policy_of(&self, owner: &str) -> Policy {
        let policies = self.policies_lock();
        let (listed, usual) = &*policies;
        listed.get(owner).unwrap_or(usual).clone()
    }

    /// Makes changes that are due. Returns the time of the next call, at most one second ahead.
    pub fn tick(&self) -> Result<Timestamp> {
        let due = self.run_due();
        let mut status = self.status_lock();
        status.at = (self.clock)();
        status.why = due.as_ref().err().map(ToString::to_string);
        drop(status);
        due
    }

    /// Returns the time by the clock of the books.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Returns the status of the last check, without waiting.
    pub fn status(&self) -> Status {
        self.status_lock().clone()
    }

    fn policies_lock(&self) -> MutexGuard<'_, (BTreeMap<String, Policy>, Policy)> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status_lock(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_due(&self) -> Result<Timestamp> {
        match self.change(|_, _| Ok(())) {
            Ok(()) => {}
            Err(Error::OtherWriter { .. }) => self.read(|_, _| Ok(()))?,
            Err(why) => return Err(why),
        }
        let synced = self.lock();
        let latest = Timestamp(synced.now.0.saturating_add(TICK_MAX));
        // only the writer makes due changes
        let first = synced.ledger.due.first().filter(|_| synced.is_writer);
        let due = first.map_or(latest, |(at, _)| *at);
        Ok(due.min(latest))
    }

    /// Returns the instance that writes.
    pub fn writer(&self) -> Result<Writer> {
        self.lock().store.elect()
    }

    /// Returns true if no other instance can write.
    pub fn is_exclusive(&self) -> bool {
        self.lock().store.is_exclusive()
    }

    /// Returns the reservations that need circuits now, or `None` if another instance may be the
    /// writer. A store that cannot be written, such as a file on a full disk, is read nevertheless.
    pub fn circuits(&self) -> Result<Option<Vec<Reservation>>> {
        let mut synced = self.lock();
        synced.ready()?;
        let is_writer = synced.is_writer || synced.store.is_exclusive();
        Ok(is_writer.then(|| synced.ledger.circuits()))
    }

    /// Returns the interfaces at which unfinished reservations have circuits, now or later.
    pub fn circuit_interfaces(&self) -> Result<BTreeSet<String>> {
        self.read(|ledger, _| Ok(ledger.usage.interfaces().cloned().collect()))
    }

    /// Returns the unfinished reservations with circuits at an interface, now or later.
    pub fn circuits_at(&self, interface: &str) -> Result<Vec<u64>> {
        self.read(|ledger, _| Ok(ledger.usage.circuits(interface).collect()))
    }

    /// Returns a copy of the calendar, for tests.
    pub fn snapshot(&self) -> Result<Calendar> {
        self.read(|ledger, _| Ok(ledger.calendar.clone()))
    }

    /// Returns the number of steps that were examined since the last load, for tests of the cost of
    /// changes.
    pub fn steps_examined(&self) -> Result<u64> {
        self.read(|ledger, _| Ok(ledger.step_counter.steps()))
    }

    /// Makes a state transition, and returns the reservation.
    fn transition(
        &self,
        principal: &Principal,
        id: u64,
        why: &str,
        verb: Verb,
    ) -> Result<Reservation> {
        self.change_one(principal, id, |ledger, now| {
            ledger.handle(
                Action {
                    now,
                    principal,
                    why,
                },
                id,
                verb,
            )
        })
    }

    /// Changes one reservation and returns it.
    fn change_one(
        &self,
        principal: &Principal,
        id: u64,
        act: impl FnOnce(&mut Ledger, Timestamp) -> Result<()>,
    ) -> Result<Reservation> {
        self.change(|ledger, now| {
            act(ledger, now)?;
            Ok(ledger.record(principal, id)?.reservation.clone())
        })
    }

    /// Makes due changes, then the change `act`. The result is in the store when this returns.
    fn change<T>(&self, act: impl FnOnce(&mut Ledger, Timestamp) -> Result<T>) -> Result<T> {
        let mut synced = self.lock();
        let news = synced.news;
        let answer = synced.change(act);
        match &answer {
            Err(Error::OtherWriter { url }) => self.status_lock().writer = Some(url.clone()),
            _ if synced.is_writer => self.status_lock().writer = None,
            _ => {}
        }
        self.close(synced, news);
        answer
    }

    fn read<T>(&self, act: impl FnOnce(&Ledger, Timestamp) -> Result<T>) -> Result<T> {
        let mut synced = self.lock();
        let news = synced.news;
        let answer = synced
            .ready()
            .and_then(|()| act(&synced.ledger, synced.now));
        self.close(synced, news);
        answer
    }

    /// Unlocks the books, and calls listeners if there are changes since `news`.
    fn close(&self, synced: MutexGuard<'_, SyncedLedger>, news: u64) {
        let has_news = synced.news != news;
        drop(synced);
        if has_news {
            self.call_listeners();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SyncedLedger> {
        let mut synced = self.synced.lock().unwrap_or_else(|poisoned| {
            // a panic has left the ledger stale, so it is read again
            self.synced.clear_poison();
            poisoned.into_inner()
        });
        synced.set_time((self.clock)());
        synced
    }

    fn call_listeners(&self) {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| listener());
    }
}

impl fmt::Debug for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Books")
            .field("synced", &self.synced)
            .finish_non_exhaustive()
    }
}

/// Maximum number of events in an answer.
const EVENTS_MAX: usize = 1000;
/// One second in nanoseconds.
const TICK_MAX: u64 = 1_000_000_000;
