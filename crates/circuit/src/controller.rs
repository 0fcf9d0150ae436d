//! Controller of the circuits of one device: a machine that decides which change is due.
//!
//! Steps of vectors end and begin at the same instants. All decreases come first. The increases follow once the device
//! has confirmed the last decrease. One that needs the capacity of a decrease waits for the guard time, too. So the
//! capacity is never exceeded; section 3.4 of the VBLS paper leaves this to "timer-based triggers". Circuits are
//! created and removed, and the device inspected, when no change is due.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::circuit_timer::Timer;
use lighthaul_calendar::freed_capacity::FreedCapacity;

use crate::circuit::{Circuit, CircuitId};
use crate::controlled_circuit::{Entry, Installed, Stage, bps_of};
use crate::driver::{Capabilities, InstalledCircuit};
use crate::error::{Cause, Conflict, Error, Misuse, Result};
pub use crate::event::{Ending, Event};
use crate::flow::Flow;

/// Circuits of one device, and their state at the device.
#[derive(Debug)]
pub struct Controller {
    capabilities: Capabilities,
    entries: BTreeMap<CircuitId, Entry>,
    /// Circuits at the device that are not wanted, and the times of their removals. They use capacity until then.
    stale: Vec<(InstalledCircuit, Instant)>,
    /// True once the device was read. Before, its circuits are not known, and nothing is changed.
    was_inspected: bool,
    inspect_at: Instant,
    /// Time that the last successful inspection has taken.
    inspection_took: Duration,
    /// Fault of the last inspection, if it failed.
    inspect_fault: Option<String>,
    /// First call of [`Controller::poll_work`].
    asked_first: Option<Instant>,
    /// Capacity of decreases whose guard times have not ended. No flow stands for circuits with damaged configurations.
    freed: FreedCapacity<Option<Flow>>,
    /// Time of the last call of [`Controller::poll_work`].
    asked_at: Instant,
    events: VecDeque<Event>,
    overflow: u64,
}

/// Next call of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Set the rates of the circuits.
    Apply(Vec<(CircuitId, Option<Rate>)>),
    /// Remove the circuit.
    Remove(CircuitId),
    /// Inspect the device.
    Inspect,
    /// Wait until the given time.
    Wait(Instant),
}

impl Controller {
    /// Creates the controller of a device with the given capabilities. Its first work is an inspection.
    pub fn new(capabilities: Capabilities) -> Result<Self> {
        capabilities.check()?;
        Ok(Self::empty(capabilities, FreedCapacity::default()))
    }

    const fn empty(capabilities: Capabilities, freed: FreedCapacity<Option<Flow>>) -> Self {
        Self {
            capabilities,
            entries: BTreeMap::new(),
            stale: Vec::new(),
            was_inspected: false,
            inspect_at: Instant::ZERO,
            inspection_took: Duration::ZERO,
            inspect_fault: None,
            asked_first: None,
            freed,
            asked_at: Instant::ZERO,
            events: VecDeque::new(),
            overflow: 0,
        }
    }

    /// Forgets all circuits and events, as after [`Self::new`]. Capacity that was freed stays in use for its guard time.
    pub(crate) fn forget(&mut self) {
        *self = Self::empty(self.capabilities, mem::take(&mut self.freed));
    }

    /// Adds `circuit` until `lease_till`, or replaces the vector of an existing circuit.
    pub fn put(&mut self, now: Instant, circuit: Circuit, lease_till: Instant) -> Result<()> {
        self.check(now, &circuit, lease_till)?;
        let known = self.entries.get(&circuit.id);
        let installed = known.map_or(Installed::Nothing, |known| known.installed);
        let timer = known.and_then(|known| known.timer);
        let entry = Entry {
            lease_till,
            installed,
            timer,
            due: now,
            stage: Stage::Kept,
            circuit,
        };
        self.entries.insert(entry.circuit.id, entry);
        Ok(())
    }

    /// Extends the lease of a circuit to `till`. The circuit ends earlier if its vector does.
    pub fn renew(&mut self, now: Instant, id: CircuitId, till: Instant) -> Result<()> {
        let entry = self.kept(id)?;
        if till <= now {
            return Err(Misuse::Lease(id).into());
        }
        entry.lease_till = till;
        entry.due = entry.due.min(entry.next_change(now));
        Ok(())
    }

    /// Releases a circuit now.
    pub fn release(&mut self, now: Instant, id: CircuitId) -> Result<()> {
        let entry = self.kept(id)?;
        entry.stage = Stage::Ending(Ending::Released);
        entry.due = now;
        Ok(())
    }

    /// Releases every circuit now.
    pub fn release_all(&mut self, now: Instant) {
        let kept: Vec<CircuitId> = self.circuits().map(|(circuit, _)| circuit.id).collect();
        for id in kept {
            // cannot fail for a kept circuit
            let _ = self.release(now, id);
        }
    }

    /// Returns the kept circuits with the ends of their leases.
    pub fn circuits(&self) -> impl Iterator<Item = (&Circuit, Instant)> {
        let kept = self.entries.values();
        let kept = kept.filter(|entry| entry.stage == Stage::Kept);
        kept.map(|entry| (&entry.circuit, entry.lease_till))
    }

    /// Returns a circuit that is kept or being removed.
    pub fn circuit(&self, id: CircuitId) -> Option<&Circuit> {
        self.entries.get(&id).map(|entry| &entry.circuit)
    }

    /// Returns the time after which the device should close a circuit by itself, if its rate becomes `rate` now. The
    /// timer ends soon after the planned end of the rate. Returns none if the device has no timers.
    pub fn timer(&self, id: CircuitId, rate: Option<Rate>) -> Option<Duration> {
        let entry = self.entries.get(&id).filter(|_| rate.is_some())?;
        let change = entry.next_change(self.asked_at);
        self.capabilities.timer(change.since(self.asked_at))
    }

    /// Returns the work that is due at `now`.
    pub fn poll_work(&mut self, now: Instant) -> Work {
        self.asked_at = now;
        if !self.was_inspected {
            self.fail_unread(now);
            let is_due = self.inspect_at <= now;
            return if is_due {
                Work::Inspect
            } else {
                Work::Wait(self.inspect_at)
            };
        }
        self.end_finished(now);
        let down = self.changes(now, |installed, wanted| wanted < installed);
        if !down.is_empty() {
            return Work::Apply(down);
        }
        // a circuit that could not be decreased is removed before others get its rate
        if let Some(id) = self.first(|entry| matches!(entry.stage, Stage::Failed(at) if at <= now))
        {
            return Work::Remove(id);
        }
        let up = self.changes(now, |installed, wanted| wanted > installed);
        let (up, guard_end) = self.ready_increases(now, up);
        if !up.is_empty() {
            return Work::Apply(up);
        }
        let expiring = self.expiring(now);
        if !expiring.is_empty() {
            return Work::Apply(expiring);
        }
        let till = self.next_change(now).min(guard_end);
        let leaving = self.first(|entry| matches!(entry.stage, Stage::Ending(_)));
        let mut stale = self.stale.iter().filter(|(_, at)| *at <= now);
        if let Some(id) = leaving.or_else(|| stale.next().map(|(one, _)| one.id)) {
            return Work::Remove(id);
        }
        let is_unmade =
            |entry: &Entry| entry.installed == Installed::Nothing && entry.stage == Stage::Kept;
        if let Some(id) = self.first(is_unmade) {
            return Work::Apply(vec![(id, None)]);
        }
        let till = till.min(self.next_renewal(now));
        let has_time = now + self.inspection_took + INSPECT_TIME <= till;
        if self.inspect_at <= now && (has_time || now.since(self.inspect_at) >= INSPECT_PATIENCE) {
            return Work::Inspect;
        }
        // without enough time before the next change, the inspection follows that change
        let inspect_at = if self.inspect_at <= now {
            till
        } else {
            self.inspect_at
        };
        Work::Wait(till.min(inspect_at))
    }

    /// Handles the result of a change.
    pub fn handle_applied(
        &mut self,
        now: Instant,
        id: CircuitId,
        rate: Option<Rate>,
        answer: Result<()>,
    ) {
        let timer = self.timer(id, rate);
        let timer = timer.map(|time| Timer::set(self.asked_at, time));
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.installed == Installed::Rate(rate) {
            // only the timer was renewed
            let retried = entry.timer.map(|timer| timer.retried(now));
            entry.timer = if answer.is_ok() { timer } else { retried };
            return;
        }
        let event = match answer {
            Ok(()) => {
                entry.timer = timer;
                let before = mem::replace(&mut entry.installed, Installed::Rate(rate));
                if let Installed::Rate(before) = before {
                    let (rates, flow) = ([before, rate].map(bps_of), entry.circuit.flow);
                    self.freed
                        .change(now, Some(flow), rates, self.capabilities.guard());
                    let (due, at) = (entry.due, now);
                    entry.due = entry.next_change(self.asked_at);
                    Event::Changed { id, rate, due, at }
                } else {
                    let has_begun = entry.circuit.trc.rate_at(self.asked_at).is_some();
                    if !has_begun {
                        entry.due = entry.next_change(self.asked_at);
                    }
                    Event::Created(id)
                }
            }
            Err(why) => {
                if why.cause() == Cause::NoAnswer && entry.installed < Installed::Rate(rate) {
                    // the device may have made the change
                    entry.installed = Installed::Rate(rate);
                }
                entry.fail(now, &why)
            }
        };
        self.push_event(event);
    }

    /// Handles the result of a removal.
    pub fn handle_removed(&mut self, now: Instant, id: CircuitId, answer: Result<()>) {
        let Some(entry) = self.entries.get_mut(&id) else {
            if answer.is_err() {
                let failed = self.stale.iter_mut().filter(|(one, _)| one.id == id);
                failed.for_each(|(_, at)| *at = now + RETRY);
                return;
            }
            for (one, _) in self.stale.extract_if(.., |(one, _)| one.id == id) {
                let rates = [bps_of(one.rate), 0];
                self.freed
                    .change(now, one.flow, rates, self.capabilities.guard());
            }
            self.push_event(Event::StaleRemoved(id));
            return;
        };
        match (answer, entry.stage) {
            (Ok(()), stage) => {
                let (rates, flow) = ([entry.installed_bps(), 0], entry.circuit.flow);
                self.freed
                    .change(now, Some(flow), rates, self.capabilities.guard());
                self.entries.remove(&id);
                if let Stage::Ending(ending) = stage {
                    self.push_event(Event::Ended(id, ending));
                }
            }
            (Err(_), Stage::Failed(_)) => entry.stage = Stage::Failed(now + RETRY),
            (Err(why), _) => {
                let event = entry.fail(now + RETRY, &why);
                self.push_event(event);
            }
        }
    }

    /// Handles the result of an inspection: circuits that differ are set again.
    pub fn handle_inspected(&mut self, now: Instant, answer: Result<Vec<InstalledCircuit>>) {
        let standing = match answer {
            Ok(standing) => standing,
            Err(why) => {
                self.inspect_at = now + RETRY;
                let why = why.to_string();
                self.inspect_fault = Some(why.clone());
                self.push_event(Event::InspectFailed(why));
                return;
            }
        };
        self.was_inspected = true;
        self.inspection_took = now.since(self.asked_at);
        self.inspect_at = now + INSPECT_INTERVAL;
        let found = standing.iter().map(|standing| (standing.id, standing));
        let mut found: BTreeMap<CircuitId, &InstalledCircuit> = found.collect();
        let mut news = Vec::new();
        if self.inspect_fault.take().is_some() {
            news.push(Event::Inspected);
        }
        let capabilities = self.capabilities;
        for (id, entry) in &mut self.entries {
            let truth = match found.remove(id) {
                Some(found) if found.flow == Some(entry.circuit.flow) => {
                    Installed::Rate(found.rate)
                }
                Some(_) | None => Installed::Nothing,
            };
            if entry.installed != truth && entry.stage == Stage::Kept {
                let planned = entry.circuit.trc.rate_at(now);
                let rate = planned.and_then(|rate| capabilities.fit(rate));
                if entry.installed != Installed::Nothing {
                    news.push(Event::Repaired(*id));
                } else if rate.is_some() && truth == Installed::Rate(rate) {
                    news.push(Event::Adopted(*id, planned));
                }
                entry.due = now;
                entry.installed = truth;
                // the timer of an earlier agent may end at any time
                let expiring = Timer::set(now, Duration::ZERO);
                entry.timer = self.capabilities.timer_max.map(|_| expiring);
            }
        }
        self.stale = found.into_values().map(|one| (one.clone(), now)).collect();
        for event in news {
            self.push_event(event);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.overflow > 0 {
            return Some(Event::Overflow(mem::take(&mut self.overflow)));
        }
        self.events.pop_front()
    }

    /// Refuses circuits that the device cannot enforce, alone or in addition to its other circuits.
    fn check(&self, now: Instant, circuit: &Circuit, lease_till: Instant) -> Result<()> {
        let id = circuit.id;
        let busy = |conflict: Conflict| Err(Error::Busy { id, conflict });
        if let Err(fault) = circuit.trc.check_ahead(now) {
            return Err(Misuse::Vector { id, fault }.into());
        }
        if lease_till <= now {
            return Err(Misuse::Lease(id).into());
        }
        let mut rates = circuit.trc.steps().iter().map(|step| step.rate);
        let can = &self.capabilities;
        if let Some(rate) = rates.find(|rate| can.fit(*rate).is_none()) {
            let misuse = Misuse::Rate {
                id,
                interface: circuit.interface.clone(),
                rate,
                granularity: can.granularity,
                min: can.rate_min,
                max: can.rate_max,
            };
            return Err(misuse.into());
        }
        let known = self.entries.get(&id);
        if known
            .is_some_and(|known| known.stage != Stage::Kept || known.circuit.flow != circuit.flow)
        {
            return busy(Conflict::Identifier);
        }
        // ending circuits are removed before new ones are created
        if known.is_none() && self.circuits().count() >= can.entries_max {
            let interface = circuit.interface.clone();
            let max = can.entries_max;
            return busy(Conflict::Full { interface, max });
        }
        let other = self
            .entries
            .values()
            .find(|entry| entry.conflicts_with(circuit));
        if let Some(other) = other {
            return busy(Conflict::Packets(other.circuit.id));
        }
        Ok(())
    }

    fn kept(&mut self, id: CircuitId) -> Result<&mut Entry> {
        let entry = self.entries.get_mut(&id);
        entry
            .filter(|entry| entry.stage == Stage::Kept)
            .ok_or_else(|| Misuse::UnknownCircuit(id).into())
    }

    /// Fails the circuits that begin after the first call, and have waited too long for a device that was never read.
    /// Earlier circuits may carry packets.
    fn fail_unread(&mut self, now: Instant) {
        let first = *self.asked_first.get_or_insert(now);
        let late = self.entries.values_mut().filter(|entry| {
            let begin = entry.circuit.trc.start();
            entry.stage == Stage::Kept && begin > first && now.since(begin) >= UNREAD_MAX
        });
        let last = self.inspect_fault.clone().unwrap_or_default();
        let why = Error::NeverRead(last);
        let events: Vec<Event> = late.map(|entry| entry.fail(now, &why)).collect();
        for event in events {
            self.push_event(event);
        }
    }

    fn end_finished(&mut self, now: Instant) {
        for entry in self.entries.values_mut() {
            if entry.stage != Stage::Kept || now < entry.end() {
                continue;
            }
            let is_over = entry.circuit.trc.end() <= now;
            entry.stage = Stage::Ending(if is_over {
                Ending::Completed
            } else {
                Ending::Expired
            });
            entry.due = entry.end();
        }
    }

    /// Returns the open circuits whose timers must be renewed now, with their rates.
    fn expiring(&self, now: Instant) -> Vec<(CircuitId, Option<Rate>)> {
        let expiring = self.entries.iter().filter_map(|(id, entry)| {
            let Installed::Rate(rate) = entry.installed else {
                return None;
            };
            (entry.renew_at(now) <= now).then_some((*id, rate))
        });
        expiring.collect()
    }

    /// Returns the time at which the next timer must be renewed, or the next stale circuit be removed.
    fn next_renewal(&self, now: Instant) -> Instant {
        let times = self.entries.values().map(|entry| entry.renew_at(now));
        let times = times.chain(self.stale.iter().map(|(_, at)| *at));
        times.fold(Instant::NEVER, Instant::min)
    }

    /// Returns the circuits whose installed and wanted rates satisfy `is_it`, with the wanted rates at `now`.
    fn changes(
        &self,
        now: Instant,
        is_it: impl Fn(Option<Rate>, Option<Rate>) -> bool,
    ) -> Vec<(CircuitId, Option<Rate>)> {
        let changes = self.entries.iter().filter_map(|(id, entry)| {
            let Installed::Rate(installed) = entry.installed else {
                return None;
            };
            let wanted = match entry.stage {
                Stage::Kept => {
                    let rate = entry.circuit.trc.rate_at(now);
                    rate.and_then(|rate| self.capabilities.fit(rate))
                }
                Stage::Ending(_) => None,
                Stage::Failed(_) => return None,
            };
            is_it(installed, wanted).then_some((*id, wanted))
        });
        changes.collect()
    }

    /// Returns the increases that can start now, and the end of the guard time that delays the next increase.
    fn ready_increases(
        &mut self,
        now: Instant,
        mut up: Vec<(CircuitId, Option<Rate>)>,
    ) -> (Vec<(CircuitId, Option<Rate>)>, Instant) {
        let mut freed = self.freed.in_use(now);
        let is_whole = |entry: &Entry| !matches!(entry.stage, Stage::Failed(_));
        if freed == 0 && self.stale.is_empty() && self.entries.values().all(is_whole) {
            return (up, Instant::NEVER);
        }
        let most = self.capabilities.rate_max.as_bps();
        let wanted = self.entries.values().map(Entry::installed_bps);
        let stale = self.stale.iter().map(|(one, _)| bps_of(one.rate));
        let mut used = wanted.chain(stale).fold(0, u64::saturating_add);
        let count = up.len();
        up.retain(|(id, wanted)| {
            let entry = &self.entries[id];
            let more = bps_of(*wanted).saturating_sub(entry.installed_bps());
            // a circuit may use at once what it has freed itself
            let own = self.freed.in_use_by(&Some(entry.circuit.flow)).min(more);
            let sums = (used.saturating_add(more), freed - own);
            let has_room = sums.0.saturating_add(sums.1) <= most;
            if has_room {
                (used, freed) = sums;
            }
            has_room
        });
        let next = self.freed.next_end().filter(|_| up.len() < count);
        (up, next.unwrap_or(Instant::NEVER))
    }

    /// Returns the time of the next change, apart from increases that wait for a guard time.
    fn next_change(&self, now: Instant) -> Instant {
        let kept = self.entries.values().map(|entry| match entry.stage {
            Stage::Kept => entry.next_change(now),
            Stage::Ending(_) => Instant::NEVER,
            Stage::Failed(at) => at,
        });
        kept.min().unwrap_or(Instant::NEVER)
    }

    fn first(&self, is_it: impl Fn(&Entry) -> bool) -> Option<CircuitId> {
        (self.entries.iter().find(|(_, entry)| is_it(entry))).map(|(id, _)| *id)
    }

    fn push_event(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            self.overflow += 1;
        }
    }
}

/// Maximum number of queued events.
pub const EVENTS_MAX: usize = 16_384;
/// Time that an inspection may take before the next change in addition to that of the last one.
const INSPECT_TIME: Duration = Duration::from_millis(250);
/// Time after which an inspection that is due is made also without time before the next change.
const INSPECT_PATIENCE: Duration = Duration::from_mins(5);
/// Time for which a circuit may wait for a device that was never read.
const UNREAD_MAX: Duration = Duration::from_mins(3);
/// Interval of inspections.
const INSPECT_INTERVAL: Duration = Duration::from_secs(30);
/// Delay before a failed call is repeated.
const RETRY: Duration = Duration::from_secs(10);
