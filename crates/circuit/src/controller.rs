//! What is due when for the circuits of one device: a machine that is told the time and what the device answered.
//!
//! Time ranges end and begin at the same instants. All decreases come first; when the device has confirmed the last of
//! them and its guard time is over, the increases follow, so that nobody gets what another still has (section 3.4
//! of the VBLS paper leaves this to "timer-based triggers"). Making and removing circuits, and looking at the
//! device, wait till nothing is due.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};

use crate::circuit::{Circuit, CircuitId};
use crate::driver::{Capabilities, InstalledCircuit};
use crate::error::{Error, Result};

/// The circuits of one device, and what it was told of them.
#[derive(Debug)]
pub struct Controller {
    capabilities: Capabilities,
    entries: BTreeMap<CircuitId, Entry>,
    /// What stands at the device and nobody wants.
    stale: Vec<CircuitId>,
    /// Whether the device was looked at since the beginning.
    was_inspected: bool,
    inspect_at: Instant,
    /// Before this nothing is increased.
    guard_till: Instant,
    /// For which moment the device was given work last.
    asked_at: Instant,
    events: VecDeque<Event>,
    overflow: u64,
}

/// What a device is to be told next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// From now on these circuits have these rates.
    Apply(Vec<(CircuitId, Option<Rate>)>),
    /// This circuit goes.
    Remove(CircuitId),
    /// What stands there?
    Inspect,
    /// Nothing before this moment.
    Wait(Instant),
}

/// What happened to circuits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The device has a circuit, which takes no packets yet.
    Created(CircuitId),
    /// Another rate holds.
    Changed {
        /// The circuit.
        id: CircuitId,
        /// Its rate from now on.
        rate: Option<Rate>,
        /// When it was to hold.
        due: Instant,
        /// When the device had confirmed it.
        at: Instant,
    },
    /// A circuit is gone from its device, as it was to.
    Ended(CircuitId, Ending),
    /// A circuit is no more; what is left of it is taken away as soon as the device lets us.
    Failed(CircuitId, String),
    /// The device did not have a circuit as it was installed to, and is told again.
    Repaired(CircuitId),
    /// A circuit of ours that nobody wants was found at the device and taken away.
    StaleRemoved(CircuitId),
    /// The device cannot be looked at.
    InspectFailed(String),
    /// So many events were overflow because nobody took them: look at everything.
    Overflow(u64),
}

/// Why a circuit ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its vector is over.
    Completed,
    /// Nobody renewed its lease.
    Expired,
    /// Its owner has released it.
    Released,
}

#[derive(Debug)]
struct Entry {
    circuit: Circuit,
    /// After this it falls to nothing, whatever its vector says.
    lease_till: Instant,
    installed: Installed,
    /// When what holds next is to hold.
    due: Instant,
    /// The rate to which it is to be raised, and when that may be: behind the decreases that were before it, but not behind
    /// later ones, which would put it off again and again.
    raise: Option<(Option<Rate>, Instant)>,
    stage: Stage,
}

/// What the device knows of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installed {
    Nothing,
    Rate(Option<Rate>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Kept,
    Ending(Ending),
    /// Its owner knows; it is removed from the device at this moment, and later if that fails.
    Failed(Instant),
}

impl Controller {
    /// A controller for a device of these capabilities, which is looked at first.
    pub fn new(capabilities: Capabilities) -> Result<Self> {
        capabilities.check()?;
        Ok(Self {
            capabilities,
            entries: BTreeMap::new(),
            stale: Vec::new(),
            was_inspected: false,
            inspect_at: Instant::ZERO,
            guard_till: Instant::ZERO,
            asked_at: Instant::ZERO,
            events: VecDeque::new(),
            overflow: 0,
        })
    }

    /// Keeps `circuit` from now on, but not beyond `lease_till`; one that is kept already gets another vector.
    pub fn put(&mut self, now: Instant, circuit: Circuit, lease_till: Instant) -> Result<()> {
        self.check(now, &circuit, lease_till)?;
        let known = self.entries.get(&circuit.id);
        let installed = known.map_or(Installed::Nothing, |known| known.installed);
        let raise = known.and_then(|known| known.raise);
        let entry = Entry {
            lease_till,
            installed,
            due: now,
            raise,
            stage: Stage::Kept,
            circuit,
        };
        self.entries.insert(entry.circuit.id, entry);
        Ok(())
    }

    /// Lets a circuit last till `till`, or the end of its vector if that is sooner.
    pub fn renew(&mut self, now: Instant, id: CircuitId, till: Instant) -> Result<()> {
        let entry = self.kept(id)?;
        if till <= now {
            return Err(too_late(id));
        }
        entry.lease_till = till;
        entry.due = entry.due.min(entry.next_change(now));
        Ok(())
    }

    /// Ends a circuit now.
    pub fn release(&mut self, now: Instant, id: CircuitId) -> Result<()> {
        let entry = self.kept(id)?;
        entry.stage = Stage::Ending(Ending::Released);
        entry.due = now;
        Ok(())
    }

    /// Ends every circuit now.
    pub fn release_all(&mut self, now: Instant) {
        let kept: Vec<CircuitId> = self.circuits().map(|(circuit, _)| circuit.id).collect();
        for id in kept {
            // it is kept, so that it can be released
            let _ = self.release(now, id);
        }
    }

    /// The circuits that are kept, with the ends of their leases.
    pub fn circuits(&self) -> impl Iterator<Item = (&Circuit, Instant)> {
        let kept = self.entries.values();
        let kept = kept.filter(|entry| entry.stage == Stage::Kept);
        kept.map(|entry| (&entry.circuit, entry.lease_till))
    }

    /// A circuit by its name, whether it is kept or about to go.
    pub fn circuit(&self, id: CircuitId) -> Option<&Circuit> {
        self.entries.get(&id).map(|entry| &entry.circuit)
    }

    /// What the device is to be told at `now`.
    pub fn poll_work(&mut self, now: Instant) -> Work {
        self.asked_at = now;
        if !self.was_inspected && self.inspect_at <= now {
            return Work::Inspect;
        }
        self.end_finished(now);
        let down = self.changes(now, |installed, wanted| wanted < installed);
        if !down.is_empty() {
            return Work::Apply(down);
        }
        // what could not be decreased goes before others get what it had
        if let Some(id) = self.first(|entry| matches!(entry.stage, Stage::Failed(at) if at <= now))
        {
            return Work::Remove(id);
        }
        let up = self.changes(now, |installed, wanted| wanted > installed);
        let (up, guard_till) = self.ready_increases(now, up);
        if !up.is_empty() {
            return Work::Apply(up);
        }
        let till = self.next_change(now).min(guard_till);
        let leaving = self.first(|entry| matches!(entry.stage, Stage::Ending(_)));
        if let Some(id) = leaving.or_else(|| self.stale.first().copied()) {
            return Work::Remove(id);
        }
        let is_unmade =
            |entry: &Entry| entry.installed == Installed::Nothing && entry.stage == Stage::Kept;
        if let Some(id) = self.first(is_unmade) {
            return Work::Apply(vec![(id, None)]);
        }
        if self.inspect_at <= now && now + INSPECT_TIME <= till {
            return Work::Inspect;
        }
        // without room it is looked at behind the next change
        let inspect_at = if self.inspect_at <= now {
            till
        } else {
            self.inspect_at
        };
        Work::Wait(till.min(inspect_at))
    }

    /// Takes the device's answer to a change.
    pub fn handle_applied(
        &mut self,
        now: Instant,
        id: CircuitId,
        rate: Option<Rate>,
        answer: Result<()>,
    ) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let event = match answer {
            Ok(()) => {
                let before = std::mem::replace(&mut entry.installed, Installed::Rate(rate));
                entry.raise = None;
                if let Installed::Rate(before) = before {
                    if rate < before {
                        self.guard_till = now + self.capabilities.guard;
                    }
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
            Err(why) => entry.fail(now, &why),
        };
        self.push_event(event);
    }

    /// Takes the device's answer to a removal.
    pub fn handle_removed(&mut self, now: Instant, id: CircuitId, answer: Result<()>) {
        let Some(entry) = self.entries.get_mut(&id) else {
            // a stranger that stays is found again by the next look
            self.stale.retain(|stranger| *stranger != id);
            if answer.is_ok() {
                self.push_event(Event::StaleRemoved(id));
            }
            return;
        };
        match (answer, entry.stage) {
            (Ok(()), stage) => {
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

    /// Takes what stands at the device: what differs from what it was installed is told again.
    pub fn handle_inspected(&mut self, now: Instant, answer: Result<Vec<InstalledCircuit>>) {
        self.was_inspected = true;
        let standing = match answer {
            Ok(standing) => standing,
            Err(why) => {
                self.inspect_at = now + RETRY;
                self.push_event(Event::InspectFailed(why.to_string()));
                return;
            }
        };
        self.inspect_at = now + INSPECT_INTERVAL;
        let mut found: BTreeMap<CircuitId, &InstalledCircuit> = standing
            .iter()
            .map(|standing| (standing.id, standing))
            .collect();
        let mut repaired = Vec::new();
        for (id, entry) in &mut self.entries {
            let truth = match found.remove(id) {
                Some(found) if found.flow == Some(entry.circuit.flow) => {
                    Installed::Rate(found.rate)
                }
                Some(_) | None => Installed::Nothing,
            };
            if entry.installed != truth && entry.stage == Stage::Kept {
                if entry.installed != Installed::Nothing {
                    repaired.push(*id);
                }
                entry.due = now;
                entry.installed = truth;
            }
        }
        self.stale = found.into_keys().collect();
        for id in repaired {
            self.push_event(Event::Repaired(id));
        }
    }

    /// What happened since the last call.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.overflow > 0 {
            return Some(Event::Overflow(std::mem::take(&mut self.overflow)));
        }
        self.events.pop_front()
    }

    /// Refuses what the device cannot keep, or not beside what it keeps already.
    fn check(&self, now: Instant, circuit: &Circuit, lease_till: Instant) -> Result<()> {
        let id = circuit.id;
        let wrong = |why: String| Err(Error::Misuse(format!("{id}: {why}")));
        let busy = |why: String| Err(Error::Busy(format!("{id}: {why}")));
        if let Err(misuse) = circuit.trc.check_ahead(now) {
            return wrong(misuse.to_string());
        }
        if lease_till <= now {
            return Err(too_late(id));
        }
        let mut rates = circuit.trc.steps().iter().map(|step| step.rate);
        let can = &self.capabilities;
        if let Some(rate) = rates.find(|rate| can.fit(*rate).is_none()) {
            return wrong(format!(
                "{} cannot keep {rate}: it keeps multiples of {} from {} to {}",
                circuit.interface, can.granularity, can.rate_min, can.rate_max
            ));
        }
        let known = self.entries.get(&id);
        if known
            .is_some_and(|known| known.stage != Stage::Kept || known.circuit.flow != circuit.flow)
        {
            return busy("its name is taken: wait till it is gone, or give another".to_owned());
        }
        // what leaves is removed before anything is made
        if known.is_none() && self.circuits().count() >= can.entries_max {
            return busy(format!(
                "{} keeps {} circuits already: release one",
                circuit.interface, can.entries_max
            ));
        }
        let other = self
            .entries
            .values()
            .find(|entry| entry.conflicts_with(circuit));
        if let Some(other) = other {
            return busy(format!(
                "{} takes the same packets at the same time: give one of them other ports",
                other.circuit.id
            ));
        }
        Ok(())
    }

    fn kept(&mut self, id: CircuitId) -> Result<&mut Entry> {
        let entry = self.entries.get_mut(&id);
        entry
            .filter(|entry| entry.stage == Stage::Kept)
            .ok_or_else(|| {
                Error::Misuse(format!(
                    "there is no {id} here: it is over or was never taken"
                ))
            })
    }

    fn end_finished(&mut self, now: Instant) {
        for entry in self.entries.values_mut() {
            if entry.stage != Stage::Kept || now < entry.end() {
                continue;
            }
            let is_over = entry.circuit.trc.end() <= now;
            let ending = if is_over {
                Ending::Completed
            } else {
                Ending::Expired
            };
            entry.stage = Stage::Ending(ending);
            entry.due = entry.end();
        }
    }

    /// Circuits whose rate differs at `now` from what the device was told, in the way that `is_it` says.
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

    /// Returns the increases that may be made now, and the time of the next of the others.
    fn ready_increases(
        &mut self,
        now: Instant,
        mut up: Vec<(CircuitId, Option<Rate>)>,
    ) -> (Vec<(CircuitId, Option<Rate>)>, Instant) {
        let mut next = Instant::NEVER;
        let guard_till = self.guard_till;
        up.retain(|(id, wanted)| {
            let Some(entry) = self.entries.get_mut(id) else {
                return false;
            };
            let same = entry.raise.filter(|(raised, _)| raised == wanted);
            let raise = same.unwrap_or((*wanted, guard_till));
            entry.raise = Some(raise);
            if raise.1 > now {
                next = next.min(raise.1);
            }
            raise.1 <= now
        });
        (up, next)
    }

    /// When something is due next, beside increases that wait.
    fn next_change(&self, now: Instant) -> Instant {
        let kept = self.entries.values().map(|entry| match entry.stage {
            Stage::Kept => entry.next_change(now),
            Stage::Ending(_) => Instant::NEVER,
            Stage::Failed(at) => at,
        });
        kept.min().unwrap_or(Instant::NEVER)
    }

    fn first(&self, is_it: impl Fn(&Entry) -> bool) -> Option<CircuitId> {
        let found = self.entries.iter().find(|(_, entry)| is_it(entry));
        found.map(|(id, _)| *id)
    }

    fn push_event(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            self.overflow += 1;
        }
    }
}

impl Entry {
    /// The first moment at which it carries nothing any more.
    fn end(&self) -> Instant {
        self.circuit.trc.end().min(self.lease_till)
    }

    /// The next moment at which another rate holds.
    fn next_change(&self, now: Instant) -> Instant {
        let change = self.circuit.trc.next_change(now);
        change.unwrap_or(Instant::NEVER).min(self.end())
    }

    /// Whether both want the same packets at the same time.
    fn conflicts_with(&self, other: &Circuit) -> bool {
        let mine = &self.circuit;
        let meet = mine.trc.start() < other.trc.end() && other.trc.start() < mine.trc.end();
        mine.id != other.id && mine.flow.overlaps(&other.flow) && meet && self.stage == Stage::Kept
    }

    /// Gives it up; it is removed at `at`.
    fn fail(&mut self, at: Instant, why: &Error) -> Event {
        self.stage = Stage::Failed(at);
        Event::Failed(self.circuit.id, why.to_string())
    }
}

fn too_late(id: CircuitId) -> Error {
    Error::Misuse(format!(
        "{id}: its lease is over before it begins: let it last longer"
    ))
}

/// How many events wait for who wants to know.
pub const EVENTS_MAX: usize = 16_384;
/// How long a look at a device with many circuits may take before something is due.
const INSPECT_TIME: Duration = Duration::from_millis(250);
/// How often it is looked whether the device still has what it was told.
const INSPECT_INTERVAL: Duration = Duration::from_secs(30);
/// When a device is asked again that failed.
const RETRY: Duration = Duration::from_secs(10);
