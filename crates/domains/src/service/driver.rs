//! Turns of the service thread, which drive the machine of the domain.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_domain_links::Transport;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_stargate::{
    CalendarResources, Domain, IdPrefix, Key, Outcome, Output, Record, Reservation, Segment,
};
use tracing::{debug, warn};

use super::callers::Callers;
use super::device_record::DeviceRecord;
use super::event::Event;
use super::status::{ReservationStatus, Status};
use crate::config::DomainConfig;
use crate::device_thread::DeviceOrders;
use crate::error::Error;
use crate::store::RecordStore;
use lighthaul_io::host::wall_clock::{WallClock, wall_now};

/// Machine of a domain with its store, devices, callers and links.
pub(super) struct Driver {
    pub(super) config: Arc<DomainConfig>,
    pub(super) key: Fingerprint,
    pub(super) domain: Domain<CalendarResources>,
    pub(super) store: RecordStore,
    pub(super) record: DeviceRecord,
    pub(super) devices: DeviceOrders,
    pub(super) callers: Callers,
    pub(super) clock: WallClock,
    /// Time since the start at which the history is deleted next.
    pub(super) forget_at: Duration,
    /// Time since the start at which devices without circuits are forgotten next.
    pub(super) look_at: Duration,
}

/// Next step of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Continue,
    Stop,
}

impl Driver {
    /// Handles events until the service stops.
    pub(super) fn run(
        &mut self,
        events: &Receiver<Event>,
        transport: &Transport,
    ) -> Result<(), Error> {
        loop {
            let now = self.clock.now()?;
            let due = self.domain.poll_timeout();
            // a clock that was set is noticed after this time at the latest
            let patience = due.map_or(LOOK, |due| due.since(now).min(LOOK));
            let first = match events.recv_timeout(patience) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            // the timers of the machine would take a step for a long wait
            let now = self.clock.now()?;
            let more = events.try_iter().take(TURN_MAX);
            let mut step = Step::Continue;
            for event in first.into_iter().chain(more) {
                step = self.handle(now, event, transport)?;
                if step == Step::Stop {
                    break;
                }
            }
            self.domain.handle_timeout(now);
            self.settle(transport)?;
            if step == Step::Stop {
                return Ok(());
            }
            self.devices.check()?;
            self.forget()?;
        }
    }

    fn handle(&mut self, now: Instant, event: Event, transport: &Transport) -> Result<Step, Error> {
        match event {
            Event::Message(from, message, _place) => self.domain.handle_message(now, from, message),
            Event::Request(request, caller) => {
                if self.callers.open() < self.config.requests_max {
                    self.callers.begin(request.id, caller);
                    self.domain.request(now, *request);
                }
            }
            Event::Preview(request, caller) => {
                if self.callers.open() < self.config.requests_max {
                    self.callers.begin(request.id, caller);
                    self.domain.preview(now, *request);
                }
            }
            Event::Watch(id, caller) => {
                if self.domain.has_further_outcome(id) {
                    self.callers.watch(id, caller);
                }
            }
            Event::Release(id) => self.domain.release(now, id),
            Event::DeviceFault(key, nth) => self.domain.fail(now, (key, nth)),
            // a caller that has left needs no answer
            Event::Status(answer) => drop(answer.send(self.status(transport))),
            Event::Find(prefix, answer) => drop(answer.send(self.find(prefix))),
            Event::Panicked(why) => return Err(Error::Internal(why)),
            Event::Stop => return Ok(Step::Stop),
        }
        Ok(Step::Continue)
    }

    /// Applies all outputs. Records come first, in one transaction, and what depends on them follows.
    pub(super) fn settle(&mut self, transport: &Transport) -> Result<(), Error> {
        loop {
            let mut records = Vec::new();
            let mut last = 0;
            while let Some(output) = self.domain.poll_output() {
                match output {
                    Output::Persist { sequence, record } => {
                        records.push(record);
                        last = sequence;
                    }
                    Output::Send { to, message } => transport.send(to, &message),
                    Output::Program {
                        key,
                        nth,
                        segment,
                        vector,
                    } => {
                        let route = self.route_of(key, segment);
                        self.devices.program((key, nth), (segment, route), vector);
                    }
                    Output::KeepOnly { circuits } => self.devices.keep_only(circuits),
                    Output::Unprogram { key, nth } => self.devices.unprogram((key, nth)),
                    Output::Outcome { id, outcome } => {
                        if let Outcome::LegLost { leg, refusal } = &outcome {
                            warn!(id = id.0, leg, why = %refusal, "one leg of a protected path has failed; the other carries the data");
                        }
                        self.callers.report(id, &outcome);
                    }
                    Output::RangeDone { key, range } => {
                        debug!(id = key.id.0, leg = key.leg, range, "a range has ended");
                    }
                }
            }
            if records.is_empty() {
                return Ok(());
            }
            let routes = records.iter().filter_map(|record| match record {
                Record::Put(stored) => {
                    Some((stored.key, self.domain.resources().routes(stored.key)))
                }
                Record::Forget(_) => None,
            });
            // a path that is closed has none any more
            let routes = routes.filter(|(_, routes)| !routes.is_empty()).collect();
            self.record
                .note(&mut self.store, &self.config.devices, &records)?;
            self.store.append(&records, &routes)?;
            self.domain.handle_persisted(last);
        }
    }

    /// Releases the paths of devices that are given up.
    pub(super) fn give_up(&mut self, transport: &Transport) -> Result<(), Error> {
        let now = self.clock.now()?;
        for (key, nth) in self.record.lost(&self.domain) {
            warn!(
                id = key.id.0,
                nth,
                "the device of a path is given up; the path, or this leg of a protected one, is released in all domains"
            );
            self.domain.fail(now, (key, nth));
        }
        self.settle(transport)?;
        Ok(self.record.write_off(&mut self.store)?)
    }

    /// Returns the number of the route that a path has between two ports.
    fn route_of(&self, key: Key, segment: Segment) -> u8 {
        let links = self.domain.resources().links_of(key, segment);
        links.map_or(0, |links| self.config.devices.route_of(segment, links))
    }

    /// Deletes the history of the calendar from time to time, and devices without circuits, and notes the time. No step of
    /// the wall clock deletes more.
    fn forget(&mut self) -> Result<(), Error> {
        let elapsed = self.clock.elapsed();
        if elapsed >= self.look_at {
            self.look_at = elapsed + LOOK;
            self.forget_devices()?;
        }
        if elapsed >= self.forget_at {
            self.forget_at = elapsed + FORGET;
            let before = self.clock.since_start() - HISTORY;
            self.domain.resources_mut().forget(before);
            // a store that fails ends the service at its next record
            self.store.note_seen(wall_now()).ok();
        }
        Ok(())
    }

    /// Forgets devices without circuits.
    fn forget_devices(&mut self) -> Result<(), Error> {
        let empty = self.devices.empty();
        self.record.forget(&mut self.store, &self.domain, &empty)?;
        Ok(())
    }

    /// Returns the reservations of the first path that begins with `prefix`, and one of the next matching path.
    fn find(&self, prefix: IdPrefix) -> Vec<ReservationStatus> {
        let mut found: Vec<ReservationStatus> = Vec::new();
        for one in self.domain.reservations() {
            let id = one.stored().key.id;
            if !prefix.begins(id) {
                continue;
            }
            let is_other = found.first().is_some_and(|one| one.stored.key.id != id);
            found.push(self.status_of(one));
            if is_other {
                break;
            }
        }
        found
    }

    fn status_of(&self, one: &Reservation) -> ReservationStatus {
        let stored = one.stored();
        let segments = (0..).zip(&stored.segments);
        let carried = segments.map(|(nth, _)| self.devices.carried((stored.key, nth)));
        ReservationStatus {
            stage: one.stage(),
            stored: stored.clone(),
            carried: carried.collect(),
        }
    }

    fn status(&self, transport: &Transport) -> Status {
        let reservations = self.domain.reservations();
        let reservations = reservations.map(|one| self.status_of(one));
        Status {
            me: self.config.me(),
            name: self.config.name.clone(),
            key: self.key,
            epoch: self.store.epoch(),
            links: transport.status(),
            reservations: reservations.collect(),
            ignored: self.domain.ignored(),
            requests: self.callers.open(),
        }
    }
}

/// Longest wait between two looks at the clock.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of further events in one turn.
const TURN_MAX: usize = 1024;
/// Time between two deletions of the calendar's history.
const FORGET: Duration = Duration::from_mins(1);
/// Age at which the calendar's history is deleted: longer than any step back of the clock.
const HISTORY: Duration = Duration::from_hours(1);
