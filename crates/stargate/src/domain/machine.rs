//! Machine of one domain: source of its own requests, and participant in requests of other domains.

use alloc::collections::{BTreeMap, BTreeSet};

use lighthaul_base::{Instant, Rng};

use super::relay::Relay;
use super::reservation::Reservation;
use super::search::Search;
use super::usage::Usage;
use crate::config::Config;
use crate::key::{CorrelationId, DomainId, Key, QueryId, ROOT};
use crate::message::{Body, Message};
use crate::outbox::{Outbox, Output};
use crate::record::Record;
use crate::refusal::Refusal;
use crate::resources::Resources;
use crate::topology::Topology;

/// Signaling of one domain.
///
/// After each `handle_*` call, and after [`Domain::request`], [`Domain::preview`], [`Domain::release`] and
/// [`Domain::fail`], the driver calls [`Domain::poll_output`] until it returns `None`. It calls
/// [`Domain::handle_persisted`] as soon as a record is durable.
#[derive(Clone, Debug)]
pub struct Domain<R> {
    pub(crate) config: Config,
    pub(crate) resources: R,
    pub(crate) topology: Topology,
    pub(crate) rng: Rng,
    pub(crate) reservations: BTreeMap<Key, Reservation>,
    /// Numbers of reservations of each neighbor.
    pub(crate) usage: Usage,
    pub(crate) searches: BTreeMap<CorrelationId, Search>,
    /// Queries of this domain that wait for an answer: request, candidate, leg.
    pub(crate) asked: BTreeMap<u64, (CorrelationId, usize, usize)>,
    /// Queries of neighbors that wait for an answer of the next domain.
    pub(crate) relays: BTreeMap<(DomainId, QueryId), Relay>,
    pub(crate) timers: BTreeSet<(Instant, Timer)>,
    pub(crate) outbox: Outbox,
    /// Messages that were ignored, since their sender or reservation is unknown.
    pub(crate) ignored: u64,
}

/// Owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Search(CorrelationId),
    Relay(DomainId, QueryId),
    Reservation(Key),
}

/// Answer of a child about its part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Held,
    Refused(Refusal),
    Committed,
    /// Not reserved any more.
    Gone(Refusal),
}

impl<R: Resources> Domain<R> {
    /// Returns a domain without reservations. The seed determines numbers of queries and delays of retries; it must
    /// differ after each restart.
    ///
    /// # Panics
    ///
    /// If the timers of the configuration are invalid.
    pub fn new(config: Config, topology: Topology, resources: R, seed: u64) -> Self {
        assert!(config.timing.is_valid(), "timers are invalid");
        Self {
            config,
            resources,
            topology,
            rng: Rng::new(seed),
            reservations: BTreeMap::new(),
            usage: Usage::default(),
            searches: BTreeMap::new(),
            asked: BTreeMap::new(),
            relays: BTreeMap::new(),
            timers: BTreeSet::new(),
            outbox: Outbox::new(),
            ignored: 0,
        }
    }

    /// Handles a message of the neighbor that the transport has authenticated. Messages of other domains are ignored.
    pub fn handle_message(&mut self, now: Instant, from: DomainId, message: Message) {
        self.handle_timeout(now);
        if !self.config.neighbors.contains_key(&from) {
            self.ignored += 1;
            return;
        }
        let sent = message.sent;
        match message.body {
            body @ Body::Query { .. } => self.handle_query(now, (from, sent), body),
            Body::Offer { query, offer } => self.handle_offer(now, from, query, Ok(offer)),
            Body::NoOffer { query, refusal } => self.handle_offer(now, from, query, Err(refusal)),
            body @ Body::Hold { .. } => self.handle_hold(now, (from, sent), body),
            Body::Held { key } => self.handle_answer(now, from, key, Answer::Held),
            Body::Refused { key, refusal } => {
                self.handle_answer(now, from, key, Answer::Refused(refusal));
            }
            Body::Commit { key } => self.handle_commit(now, from, key),
            Body::Committed { key } => self.handle_answer(now, from, key, Answer::Committed),
            Body::Abort { key } => self.handle_close(now, from, key, Refusal::Aborted),
            Body::Release { key } => self.handle_close(now, from, key, Refusal::Released),
            Body::Aborted { key, refusal } => {
                self.handle_answer(now, from, key, Answer::Gone(refusal));
            }
            Body::Notify { key, refusal } => self.handle_notify(now, (from, key), refusal),
            Body::Released { key } => {
                self.handle_answer(now, from, key, Answer::Gone(Refusal::Released));
            }
            Body::Ask { key } => self.handle_ask(now, from, key),
            Body::RangeDone { key, range } => self.handle_range_done(now, from, key, range),
        }
    }

    /// Handles the timers that are due at `now`. It may come late, or when none is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, timer)) = self.timers.first().filter(|(at, _)| *at <= now).copied() {
            match timer {
                Timer::Search(id) => self.search_timeout(now, id),
                Timer::Relay(from, query) => self.relay_timeout(from, query),
                Timer::Reservation(key) => {
                    self.change(key, |domain, reservation| {
                        domain.reservation_timeout(now, reservation);
                    });
                }
            }
        }
    }

    /// Notes that all records up to the given sequence number are durable.
    pub fn handle_persisted(&mut self, sequence: u64) {
        self.outbox.confirm(sequence);
    }

    /// Returns the next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.poll()
    }

    /// Returns the time at which [`Domain::handle_timeout`] is next due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let first = self.timers.first().map(|(at, _)| *at);
        first.filter(|at| *at < Instant::NEVER)
    }

    /// Returns all reservations, also reservations that were given up.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.reservations.values()
    }

    /// Returns true if a request still searches a path.
    pub fn is_searching(&self, id: CorrelationId) -> bool {
        self.searches.contains_key(&id)
    }

    /// Returns true if a request of this domain will have a further outcome.
    pub fn has_further_outcome(&self, id: CorrelationId) -> bool {
        let mut attempts = self.attempts(id);
        let is_held = |key| {
            self.reservations
                .get(&key)
                .is_some_and(Reservation::is_held)
        };
        self.is_searching(id) || attempts.any(is_held)
    }

    /// Returns the number of messages that were ignored.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the local calendar.
    pub const fn resources(&self) -> &R {
        &self.resources
    }

    /// Returns the local calendar for changes by its owner.
    pub const fn resources_mut(&mut self) -> &mut R {
        &mut self.resources
    }

    /// Takes a reservation out, lets `step` change it, and sets its timer again. Returns false if there is none.
    pub(crate) fn change(
        &mut self,
        key: Key,
        step: impl FnOnce(&mut Self, &mut Reservation),
    ) -> bool {
        let Some(mut reservation) = self.reservations.remove(&key) else {
            return false;
        };
        self.usage.leave(&reservation);
        self.timers
            .remove(&(reservation.wake, Timer::Reservation(key)));
        step(self, &mut reservation);
        self.keep(reservation);
        true
    }

    /// Puts a reservation back, or forgets it.
    pub(crate) fn keep(&mut self, mut reservation: Reservation) {
        let key = reservation.key();
        if reservation.is_forgotten {
            self.outbox.persist(Record::Forget(key));
            return;
        }
        reservation.wake = reservation.next_timer(self.config.timing.linger);
        self.timers
            .insert((reservation.wake, Timer::Reservation(key)));
        self.usage.enter(&reservation);
        self.reservations.insert(key, reservation);
    }

    /// Stores the present stage of a reservation.
    pub(crate) fn persist(&mut self, reservation: &Reservation) {
        self.outbox.persist(Record::Put(reservation.stored.clone()));
    }

    pub(crate) fn send(&mut self, now: Instant, to: DomainId, body: Body) {
        let message = Message { sent: now, body };
        self.outbox.push(Output::Send { to, message });
    }

    /// Returns the key under which the parent of a leg has its reservation.
    pub(crate) fn parent_key(&self, key: Key) -> Key {
        if key.source == self.config.me {
            key.root()
        } else {
            key
        }
    }

    /// Returns the keys of all attempts of a request of this domain.
    pub(crate) fn attempts(&self, id: CorrelationId) -> impl Iterator<Item = Key> + '_ {
        let key = |attempt, leg| Key {
            source: self.config.me,
            id,
            attempt,
            leg,
        };
        let attempts = self.reservations.range(key(0, 0)..=key(u8::MAX, ROOT));
        attempts.map(|(key, _)| *key)
    }
}
