//! The books as others hold them.

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
use crate::store::{Store, Writer};
use crate::word::{
    CalendarView, Change, Event, Moment, NewOutage, NewReservation, OutageView, Page, Quote,
    Reservation, TopologyView,
};

/// The owner of the calendar.
///
/// One change is made at a time, and what is answered is in the store. If the store cannot keep a change, it has not
/// happened: the books are read again from the store before anything else. An instance that is not the writer follows
/// the store, and answers what is only read.
pub struct Books {
    clerk: Mutex<Clerk>,
    /// What time it is, and who is told of news.
    clock: Box<dyn Fn() -> Moment + Send + Sync>,
    listeners: Mutex<Vec<Listener>>,
    standing: Mutex<Standing>,
}

/// What was known of the books when they were last looked after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Where the instance that writes is asked, if it is another one.
    pub writer: Option<String>,
    /// When they were looked after.
    pub at: Moment,
    /// Why that failed.
    pub why: Option<String>,
}

type Listener = Box<dyn Fn() + Send + Sync>;

/// What happened behind some number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// What somebody may see of it, the oldest first.
    pub events: Vec<Event>,
    /// To go on, ask for what is behind this.
    pub seq: u64,
}

impl Books {
    /// Opens the books that a store has.
    pub fn open(
        store: Box<dyn Store>,
        topology: Topology,
        config: Config,
        clock: impl Fn() -> Moment + Send + Sync + 'static,
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

    /// Reserves, and holds it till it is committed; with a key, what is asked again is answered again.
    pub fn reserve(
        &self,
        who: &Who,
        new: &NewReservation,
        key: Option<&str>,
    ) -> Result<Reservation> {
        self.change(|ledger, now| ledger.reserve(now, who, new, key))
    }

    /// What would be granted now.
    pub fn quote(&self, who: &Who, new: &NewReservation) -> Result<Quote> {
        self.read(|ledger, now| ledger.quote(now, who, new))
    }

    /// Takes up what is held.
    pub fn commit(&self, who: &Who, id: u64, why: &str) -> Result<Reservation> {
        self.change_one(who, id, |ledger, now| {
            ledger.commit(Act { now, who, why }, id)
        })
    }

    /// Has its circuits made.
    pub fn provision(&self, who: &Who, id: u64, why: &str) -> Result<Reservation> {
        self.turn(who, id, why, Verb::Provision)
    }

    /// Leaves what is left of it to others.
    pub fn release(&self, who: &Who, id: u64, why: &str) -> Result<Reservation> {
        self.turn(who, id, why, Verb::Release)
    }

    /// Calls it off.
    pub fn terminate(&self, who: &Who, id: u64, why: &str) -> Result<Reservation> {
        self.turn(who, id, why, Verb::Terminate)
    }

    /// Makes it larger.
    pub fn extend(&self, who: &Who, id: u64, change: &Change) -> Result<Reservation> {
        let why = &change.why;
        self.change_one(who, id, |ledger, now| {
            ledger.resize(Act { now, who, why }, id, change, true)
        })
    }

    /// Makes it smaller.
    pub fn shrink(&self, who: &Who, id: u64, change: &Change) -> Result<Reservation> {
        let why = &change.why;
        self.change_one(who, id, |ledger, now| {
            ledger.resize(Act { now, who, why }, id, change, false)
        })
    }

    /// Notes that its circuit carries packets, as a device says.
    pub fn activate(&self, who: &Who, id: u64, why: &str) -> Result<()> {
        self.change(|ledger, now| ledger.activate(Act { now, who, why }, id))
    }

    /// Gives it up since its circuit is broken, as a device says; others may have what it had.
    pub fn fail(&self, who: &Who, id: u64, why: &str) -> Result<()> {
        self.change(|ledger, now| ledger.fail(Act { now, who, why }, id))
    }

    /// A reservation.
    pub fn get(&self, who: &Who, id: u64) -> Result<Reservation> {
        self.read(|ledger, _| Ok(ledger.record(who, id)?.reservation.clone()))
    }

    /// Reservations of higher numbers than the first of `part`, at most as many as the second.
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

    /// Calls off an outage, or ends it.
    pub fn lift(&self, who: &Who, id: u64) -> Result<OutageView> {
        self.change(|ledger, now| ledger.lift(now, who, id))
    }

    /// All outages that are not over.
    pub fn outages(&self) -> Result<Vec<OutageView>> {
        self.read(|ledger, now| Ok(ledger.outages_ahead(now)))
    }

    /// What is free of a link from one moment till another, and who has the rest.
    pub fn calendar(
        &self,
        who: &Who,
        link: &str,
        window: (Moment, Moment),
    ) -> Result<CalendarView> {
        self.read(|ledger, now| ledger.calendar_view(who, link, now, window))
    }

    /// Hosts, switches and links.
    pub fn topology(&self) -> Result<TopologyView> {
        self.read(|ledger, _| Ok(ledger.topology_view()))
    }

    /// What happened behind a number, at most so many events.
    pub fn events_since(&self, who: &Who, seq: u64, most: usize) -> Result<Happened> {
        let events = self.lock().store.events(seq, most.clamp(1, EVENTS_MAX))?;
        let last = events.last().map_or(seq, |(last, _)| *last);
        let events = events.iter().map(|(_, doc)| serde_json::from_str(doc));
        let mut events = events.collect::<serde_json::Result<Vec<Event>>>()?;
        events.retain(|event| who.may(&event.reservation.owner));
        Ok(Happened { events, seq: last })
    }

    /// The number of the latest change.
    pub fn seq(&self) -> Result<u64> {
        self.read(|ledger, _| Ok(ledger.seq))
    }

    /// Calls a listener whenever there is news; it must not call back.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
    }

    /// From now on the identities that are `listed` may book what is said there, and others what is `usual`. What was
    /// granted stays.
    pub fn set_policies(&self, usual: Policy, listed: BTreeMap<String, Policy>) {
        let config = &mut self.lock().ledger.config;
        (config.policy, config.policies) = (usual, listed);
    }

    /// Does what is due; says when it is to be called again, at the latest after a second.
    pub fn tick(&self) -> Result<Moment> {
        let due = self.look_after();
        let mut standing = self.standing_now();
        standing.at = (self.clock)();
        standing.why = due.as_ref().err().map(ToString::to_string);
        drop(standing);
        due
    }

    /// Returns the time by the clock of the books.
    pub fn now(&self) -> Moment {
        (self.clock)()
    }

    /// What is known from the last look; nobody waits for it.
    pub fn standing(&self) -> Standing {
        self.standing_now().clone()
    }

    fn standing_now(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_after(&self) -> Result<Moment> {
        match self.change(|_, _| Ok(())) {
            Ok(()) => {}
            Err(Error::Elsewhere { .. }) => self.read(|_, _| Ok(()))?,
            Err(why) => return Err(why),
        }
        let clerk = self.lock();
        let latest = Moment(clerk.now.0.saturating_add(TICK_MAX));
        // who follows does nothing by itself
        let first = clerk.ledger.due.first().filter(|_| clerk.is_writer);
        let due = first.map_or(latest, |(at, _)| *at);
        Ok(due.min(latest))
    }

    /// Who writes.
    pub fn writer(&self) -> Result<Writer> {
        self.lock().store.elect()
    }

    /// For which reservations devices have to keep circuits now; nothing if another instance sees to that.
    pub fn circuits(&self) -> Result<Option<Vec<Reservation>>> {
        let mut clerk = self.lock();
        clerk.ready()?;
        Ok(clerk.is_writer.then(|| clerk.ledger.circuits()))
    }

    /// The calendar as it is, for tests and those who draw it.
    pub fn snapshot(&self) -> Result<Calendar> {
        self.read(|ledger, _| Ok(ledger.calendar.clone()))
    }

    /// Steps of reservations that were looked at since the books were read, for tests of what a change costs.
    pub fn effort(&self) -> Result<u64> {
        self.read(|ledger, _| Ok(ledger.effort.steps()))
    }

    /// Does what an owner may do, and answers with the reservation.
    fn turn(&self, who: &Who, id: u64, why: &str, verb: Verb) -> Result<Reservation> {
        self.change_one(who, id, |ledger, now| {
            ledger.handle(Act { now, who, why }, id, verb)
        })
    }

    /// Changes one reservation, and answers with it.
    fn change_one(
        &self,
        who: &Who,
        id: u64,
        act: impl FnOnce(&mut Ledger, Moment) -> Result<()>,
    ) -> Result<Reservation> {
        self.change(|ledger, now| {
            act(ledger, now)?;
            Ok(ledger.record(who, id)?.reservation.clone())
        })
    }

    /// Changes the books, after what is due; the answer is in the store before it is given.
    fn change<T>(&self, act: impl FnOnce(&mut Ledger, Moment) -> Result<T>) -> Result<T> {
        let mut clerk = self.lock();
        let news = clerk.news;
        let answer = clerk.change(act);
        match &answer {
            Err(Error::Elsewhere { url }) => self.standing_now().writer = Some(url.clone()),
            _ if clerk.is_writer => self.standing_now().writer = None,
            _ => {}
        }
        self.close(clerk, news);
        answer
    }

    fn read<T>(&self, act: impl FnOnce(&Ledger, Moment) -> Result<T>) -> Result<T> {
        let mut clerk = self.lock();
        let news = clerk.news;
        let answer = clerk.ready().and_then(|()| act(&clerk.ledger, clerk.now));
        self.close(clerk, news);
        answer
    }

    /// Lets the next one to the clerk, and tells of what is new since `news`.
    fn close(&self, clerk: MutexGuard<'_, Clerk>, news: u64) {
        let has_news = clerk.news != news;
        drop(clerk);
        if has_news {
            self.call_listeners();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Clerk> {
        let mut clerk = self.clerk.lock().unwrap_or_else(|poisoned| {
            // who panicked has left the ledger stale, so that it is read again
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

/// The most events of one answer.
const EVENTS_MAX: usize = 1000;
/// A second, in nanoseconds.
const TICK_MAX: u64 = 1_000_000_000;
