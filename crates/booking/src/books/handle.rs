//! Interface of the books for other modules.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_calendar::{Calendar, Topology};
use lighthaul_circuit::reservation::Verb;

use super::clerk::Clerk;
use super::config::Config;
use super::ledger::Ledger;
use super::policy::Policy;
use super::view::Filter;
use super::who::{Act, Who};
use crate::error::{Error, Result};
use crate::json::{
    CalendarView, Change, Event, NewOutage, NewReservation, OutageView, Page, Quote, Reservation,
    Timestamp, TopologyView,
};
use crate::store::{Store, Writer};

/// Reservations of all owners, and their calendar.
///
/// Changes are made one at a time, and each answer is in the store. If the store cannot be written,
/// nothing has changed, and the ledger is read again. An instance that is not the writer follows
/// the store and answers queries.
pub struct Books {
    clerk: Mutex<Clerk>,
    /// Clock.
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    listeners: Mutex<Vec<Listener>>,
    standing: Mutex<Standing>,
}

/// Status of the books at the last check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// URL of the instance that writes, if it is another one.
    pub writer: Option<String>,
    /// Time of the check.
    pub at: Timestamp,
    /// Reason for which the check failed.
    pub why: Option<String>,
}

type Listener = Box<dyn Fn() + Send + Sync>;

/// Events after a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
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
        let books = Self {
            clerk: Mutex::new(Clerk::new(store, topology, config)?),
            clock: Box::new(clock),
            listeners: Mutex::default(),
            standing: Mutex::default(),
        };
        books.lock().check()?;
        books.tick()?;
        Ok(books)
    }

    /// Reserves capacity, which is held until the commit. A repeated request with the same key gets
    /// the same answer.
    pub fn reserve(
        &self,
        who: &Who,
        new: &NewReservation,
        key: Option<&str>,
    ) -> Result<Reservation> {
        self.change(|ledger, now| ledger.reserve(now, who, new, key))
    }

    /// Returns the grant that a request would get now.
    pub fn quote(&self, who: &Who, new: &NewReservation) -> Result<Quote> {
        self.read(|ledger, now| ledger.quote(now, who, new))
    }

    /// Commits a reservation.
    pub fn commit(&self, who: &Who, id: u64, why: &str) -> Result<Reservation> {
        self.change_one(who, id, |ledger, now| {
            ledger.commit(Act { now, who, why }, id)
        })
    }

    /// Provisions the circuit of a reservation.
    pub fn provision(&self, who: &Who, id: u64, why: &str) -> Result<Reservation> {
        self.turn(who, id, why, Verb::Provision)
    }

    /// Releases the rest of a reservation.
    pub fn release(&self, who: &Who, id: u64, why: &str) -> Result<Reservation> {
        self.turn(who, id, why, Verb::Release)
    }

    /// Cancels a reservation.
    pub fn terminate(&self, who: &Who, id: u64, why: &str) -> Result<Reservation> {
        self.turn(who, id, why, Verb::Terminate)
    }

    /// Extends a reservation.
    pub fn extend(&self, who: &Who, id: u64, change: &Change) -> Result<Reservation> {
        let why = &change.why;
        self.change_one(who, id, |ledger, now| {
            ledger.resize(Act { now, who, why }, id, change, true)
        })
    }

    /// Shrinks a reservation.
    pub fn shrink(&self, who: &Who, id: u64, change: &Change) -> Result<Reservation> {
        let why = &change.why;
        self.change_one(who, id, |ledger, now| {
            ledger.resize(Act { now, who, why }, id, change, false)
        })
    }

    /// Notes that a device reports packets on the circuit of a reservation.
    pub fn activate(&self, who: &Who, id: u64, why: &str) -> Result<()> {
        self.change(|ledger, now| ledger.activate(Act { now, who, why }, id))
    }

    /// Fails a reservation because a device reports a broken circuit. Its capacity is freed.
    pub fn fail(&self, who: &Who, id: u64, why: &str) -> Result<()> {
        self.change(|ledger, now| ledger.fail(Act { now, who, why }, id))
    }

    /// Returns a reservation.
    pub fn get(&self, who: &Who, id: u64) -> Result<Reservation> {
        self.read(|ledger, _| Ok(ledger.record(who, id)?.reservation.clone()))
    }

    /// Returns reservations with numbers above the first value of `part`, at most as many as the
    /// second one.
    pub fn list(
        &self,
        who: &Who,
        filter: &Filter,
        part: (u64, usize),
    ) -> Result<Page<Reservation>> {
        self.read(|ledger, _| ledger.list(who, filter, part))
    }

    /// Plans an outage.
    pub fn outage(&self, who: &Who, new: &NewOutage) -> Result<OutageView> {
        self.change(|ledger, now| ledger.outage(now, who, new))
    }

    /// Cancels or ends an outage.
    pub fn lift(&self, who: &Who, id: u64) -> Result<OutageView> {
        self.change(|ledger, now| ledger.lift(now, who, id))
    }

    /// Returns the outages that have not ended.
    pub fn outages(&self) -> Result<Vec<OutageView>> {
        self.read(|ledger, now| Ok(ledger.outages_ahead(now)))
    }

    /// Returns the free and the booked capacity of a link in a range of time.
    pub fn calendar(
        &self,
        who: &Who,
        link: &str,
        window: (Timestamp, Timestamp),
    ) -> Result<CalendarView> {
        self.read(|ledger, now| ledger.calendar_view(who, link, now, window))
    }

    /// Returns the hosts, switches and links.
    pub fn topology(&self) -> Result<TopologyView> {
        self.read(|ledger, _| Ok(ledger.topology_view()))
    }

    /// Returns at most `most` events after a number.
    pub fn events_since(&self, who: &Who, seq: u64, most: usize) -> Result<Happened> {
        let events = self.lock().store.events(seq, most.clamp(1, EVENTS_MAX))?;
        let last = events.last().map_or(seq, |(last, _)| *last);
        let events = events.iter().map(|(_, doc)| serde_json::from_str(doc));
        let mut events = events.collect::<serde_json::Result<Vec<Event>>>()?;
        events.retain(|event| who.may(&event.reservation.owner));
        Ok(Happened { events, seq: last })
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
        let config = &mut self.lock().ledger.config;
        (config.policy, config.policies) = (usual, listed);
    }

    /// Makes changes that are due. Returns the time of the next call, at most one second ahead.
    pub fn tick(&self) -> Result<Timestamp> {
        let due = self.look_after();
        let mut standing = self.standing_now();
        standing.at = (self.clock)();
        standing.why = due.as_ref().err().map(ToString::to_string);
        drop(standing);
        due
    }

    /// Returns the time by the clock of the books.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Returns the status of the last check, without waiting.
    pub fn standing(&self) -> Standing {
        self.standing_now().clone()
    }

    fn standing_now(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_after(&self) -> Result<Timestamp> {
        match self.change(|_, _| Ok(())) {
            Ok(()) => {}
            Err(Error::OtherWriter { .. }) => self.read(|_, _| Ok(()))?,
            Err(why) => return Err(why),
        }
        let clerk = self.lock();
        let latest = Timestamp(clerk.now.0.saturating_add(TICK_MAX));
        // only the writer makes due changes
        let first = clerk.ledger.due.first().filter(|_| clerk.is_writer);
        let due = first.map_or(latest, |(at, _)| *at);
        Ok(due.min(latest))
    }

    /// Returns the instance that writes.
    pub fn writer(&self) -> Result<Writer> {
        self.lock().store.elect()
    }

    /// Returns the reservations that need circuits now, or `None` if another instance is the
    /// writer.
    pub fn circuits(&self) -> Result<Option<Vec<Reservation>>> {
        let mut clerk = self.lock();
        clerk.ready()?;
        Ok(clerk.is_writer.then(|| clerk.ledger.circuits()))
    }

    /// Returns a copy of the calendar, for tests.
    pub fn snapshot(&self) -> Result<Calendar> {
        self.read(|ledger, _| Ok(ledger.calendar.clone()))
    }

    /// Returns the number of steps that were examined since the last load, for tests of the cost of
    /// changes.
    pub fn effort(&self) -> Result<u64> {
        self.read(|ledger, _| Ok(ledger.effort.steps()))
    }

    /// Makes a state transition, and returns the reservation.
    fn turn(&self, who: &Who, id: u64, why: &str, verb: Verb) -> Result<Reservation> {
        self.change_one(who, id, |ledger, now| {
            ledger.handle(Act { now, who, why }, id, verb)
        })
    }

    /// Changes one reservation and returns it.
    fn change_one(
        &self,
        who: &Who,
        id: u64,
        act: impl FnOnce(&mut Ledger, Timestamp) -> Result<()>,
    ) -> Result<Reservation> {
        self.change(|ledger, now| {
            act(ledger, now)?;
            Ok(ledger.record(who, id)?.reservation.clone())
        })
    }

    /// Makes due changes and then this change. The result is in the store when this returns.
    fn change<T>(&self, act: impl FnOnce(&mut Ledger, Timestamp) -> Result<T>) -> Result<T> {
        let mut clerk = self.lock();
        let news = clerk.news;
        let answer = clerk.change(act);
        match &answer {
            Err(Error::OtherWriter { url }) => self.standing_now().writer = Some(url.clone()),
            _ if clerk.is_writer => self.standing_now().writer = None,
            _ => {}
        }
        self.close(clerk, news);
        answer
    }

    fn read<T>(&self, act: impl FnOnce(&Ledger, Timestamp) -> Result<T>) -> Result<T> {
        let mut clerk = self.lock();
        let news = clerk.news;
        let answer = clerk.ready().and_then(|()| act(&clerk.ledger, clerk.now));
        self.close(clerk, news);
        answer
    }

    /// Unlocks the books, and calls listeners if there are changes since `news`.
    fn close(&self, clerk: MutexGuard<'_, Clerk>, news: u64) {
        let has_news = clerk.news != news;
        drop(clerk);
        if has_news {
            self.call_listeners();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Clerk> {
        let mut clerk = self.clerk.lock().unwrap_or_else(|poisoned| {
            // a panic has left the ledger stale, so it is read again
            self.clerk.clear_poison();
            poisoned.into_inner()
        });
        clerk.set_time((self.clock)());
        clerk
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
            .field("clerk", &self.clerk)
            .finish_non_exhaustive()
    }
}

/// Maximum number of events in an answer.
const EVENTS_MAX: usize = 1000;
/// One second in nanoseconds.
const TICK_MAX: u64 = 1_000_000_000;
