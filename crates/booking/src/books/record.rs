//! Reservation with its internal state, and its form in the store.
//!
//! The state of a stored [`Record`] is not stored: reading it replays the journal. A transition
//! that the lifecycle does not have is refused, and the record stays as it was. Journals are limited in
//! lines and bytes; the line of the creation always stays.

use std::ops::RangeInclusive;

use lighthaul_base::trc::Step as Granted;
use lighthaul_base::{Instant, Rate};
use lighthaul_booking_client::json::{JournalLine, Reservation, Step, Timestamp};
use lighthaul_booking_client::reservation::{
    self, Reservation as Lifecycle, ReservationState, Transition, Verb,
};
use lighthaul_calendar::{Grant, Path, Topology};
use serde::{Deserialize, Serialize};

use super::principal::Action;
use crate::error::Result;

/// Reservation, and the state that is not shown to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) reservation: Reservation,
    /// Sequence number of the booking.
    pub(crate) nth: u64,
    /// True if an operator booked it, so that no policy applies.
    pub(crate) by_operator: bool,
    /// Capacity that it may withhold from others; none after a commit, and if no limit applies.
    pub(crate) withheld: Option<Withheld>,
    hold_till: Timestamp,
    life: Lifecycle,
}

/// Highest rate and total time of the steps of a reservation without a commit, also of those that it had before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Withheld {
    pub(crate) rate_bps: u64,
    pub(crate) nanos: u64,
}

/// Record in the store. The lifecycle is derived from the journal.
#[derive(Serialize, Deserialize)]
struct Doc<R> {
    reservation: R,
    nth: u64,
    hold_till: Timestamp,
    #[serde(default)]
    by_operator: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    withheld: Option<Withheld>,
}

impl Record {
    /// Returns a record for a new grant that is held until `hold_till`.
    pub(crate) const fn new(reservation: Reservation, nth: u64, hold_till: Timestamp) -> Self {
        Self {
            life: Lifecycle::reserve(reservation::WallTime(hold_till.0)),
            reservation,
            nth,
            by_operator: false,
            withheld: None,
            hold_till,
        }
    }

    /// Reads a record from the store.
    pub(crate) fn read(doc: &str) -> Result<Self> {
        let doc: Doc<Reservation> = serde_json::from_str(doc)?;
        let journal: Vec<Transition> = doc.reservation.journal.iter().map(transition).collect();
        let life = Lifecycle::replay(doc.hold_till.into(), &journal)?;
        Ok(Self {
            life,
            reservation: doc.reservation,
            nth: doc.nth,
            by_operator: doc.by_operator,
            withheld: doc.withheld,
            hold_till: doc.hold_till,
        })
    }

    /// Returns the record in the form of the store.
    pub(crate) fn doc(&self) -> Result<String> {
        let doc = Doc {
            reservation: &self.reservation,
            nth: self.nth,
            hold_till: self.hold_till,
            by_operator: self.by_operator,
            withheld: self.withheld,
        };
        Ok(serde_json::to_string(&doc)?)
    }

    /// Changes the state, and adds a line to the journal.
    pub(super) fn transition(&mut self, act: Action<'_>, verb: Verb) -> Result<ReservationState> {
        let now = act.now;
        let line = self.life.handle(verb, act.into())?;
        let reservation = &mut self.reservation;
        add_line(&mut reservation.journal, (&line).into());
        reservation.state = line.to;
        reservation.hold_till = self.life.hold_till().map(Timestamp::from);
        reservation.changed = now;
        if verb == Verb::Commit {
            self.withheld = None;
        }
        if line.to == ReservationState::Failed {
            reservation.failure = Some(line.why);
        }
        if line.to.is_final() {
            self.cut(now);
        }
        Ok(line.to)
    }

    /// Adds a journal line that does not change the state.
    pub(super) fn note(&mut self, act: Action<'_>, verb: Verb) -> Result<()> {
        let line = self.life.handle(verb, act.into())?;
        add_line(&mut self.reservation.journal, (&line).into());
        self.reservation.changed = act.now;
        Ok(())
    }

    /// Stores a new grant.
    pub(crate) fn grant(&mut self, grant: &Grant, topology: &Topology) {
        self.reservation.path = names(grant, topology);
        self.reservation.steps = steps(&grant.joined());
        self.reservation.packet_overhead_bytes = grant.path().packet_bytes();
        self.reservation.promised_end = grant.end().into();
        if let Some(before) = self.withheld {
            let now = Withheld::of(&self.reservation.steps);
            self.withheld = Some(Withheld {
                rate_bps: now.rate_bps.max(before.rate_bps),
                nanos: now.nanos.max(before.nanos),
            });
        }
    }

    /// Returns the time till which the reservation holds capacity, at the latest `now`.
    pub(super) fn holds_till(&self, now: Timestamp) -> Timestamp {
        let last = if self.is_live() {
            now
        } else {
            self.reservation.changed
        };
        last.min(self.hold_till)
    }

    /// Removes the steps after a time.
    fn cut(&mut self, at: Timestamp) {
        let steps = &mut self.reservation.steps;
        steps.retain(|step| step.from < at);
        if let Some(last) = steps.last_mut() {
            last.till = last.till.min(at);
        }
    }

    /// Returns its steps in the type of the calendar.
    pub(crate) fn granted(&self) -> Vec<Granted> {
        let steps = self.reservation.steps.iter();
        let granted = steps.filter_map(|step| {
            let rate = Rate::from_bps(step.rate_bps)?;
            Some(Granted {
                from: step.from.instant(),
                till: step.till.instant(),
                rate,
            })
        });
        granted.collect()
    }

    /// Returns the approximate memory that the record uses, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        bytes(&self.reservation)
    }

    /// Returns true if the reservation has not ended.
    pub(crate) const fn is_live(&self) -> bool {
        !self.life.state().is_final()
    }

    /// Returns true if the reservation has ended by `now`, even if its state was not updated yet.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        let is_end = |verb| verb != Verb::Activate;
        let end = self.reservation.promised_end;
        end <= now
            || self
                .due()
                .is_some_and(|(at, verb)| is_end(verb) && at <= now)
    }

    /// Returns true if it has ended, and its circuit was in use at some time after `at`.
    pub(crate) fn had_circuit_after(&self, at: Timestamp) -> bool {
        let has_circuit = self.reservation.request.flow.is_some();
        let last = self.reservation.steps.last();
        has_circuit && !self.is_live() && last.is_some_and(|step| at < step.till)
    }

    /// Returns the start of the first step.
    pub(crate) fn start(&self) -> Timestamp {
        let first = self.reservation.steps.first();
        first.map_or(self.reservation.promised_end, |step| step.from)
    }

    /// Returns the time and the kind of the next change that is due.
    pub(crate) fn due(&self) -> Option<(Timestamp, Verb)> {
        let reservation = &self.reservation;
        let end = reservation.promised_end;
        match reservation.state {
            ReservationState::Reserved => Some((self.hold_till, Verb::TimeOut)),
            ReservationState::Committed => Some((end, Verb::Terminate)),
            // with a circuit, the device reports when it carries packets
            ReservationState::Provisioned
                if reservation.request.flow.is_none() && self.start() < end =>
            {
                Some((self.start(), Verb::Activate))
            }
            ReservationState::Provisioned | ReservationState::Active => Some((end, Verb::Release)),
            ReservationState::Released
            | ReservationState::Terminated
            | ReservationState::Failed => None,
        }
    }
}

impl Withheld {
    /// Returns the highest rate and the total time of steps.
    pub(super) fn of(steps: &[Step]) -> Self {
        let steps = || steps.iter().filter(|step| step.rate_bps > 0);
        let times = steps().map(|step| step.till.0.saturating_sub(step.from.0));
        Self {
            rate_bps: steps().map(|step| step.rate_bps).max().unwrap_or(0),
            nanos: times.fold(0, u64::saturating_add),
        }
    }
}

impl<'a> From<Action<'a>> for reservation::Act<'a> {
    fn from(act: Action<'a>) -> Self {
        Self {
            at: act.now.into(),
            who: &act.principal.name,
            why: act.why,
        }
    }
}

/// Adds a line to a journal, and deletes lines above the limits: first the oldest that do not change the state, then the
/// oldest changes that lead back to the same state. The journal without them is valid. The line of the creation stays.
fn add_line(journal: &mut Vec<JournalLine>, line: JournalLine) {
    let is_change = |line: &JournalLine| line.from != line.to;
    let is_note = |line: &JournalLine| !is_change(line) && line.verb != Verb::Reserve;
    loop {
        let all = || journal.iter().chain([&line]);
        let (notes, changes) = (
            all().filter(|line| is_note(line)).count(),
            all().filter(|line| is_change(line)).count(),
        );
        let is_long = all().map(text_bytes).sum::<usize>() > JOURNAL_BYTES_MAX;
        let note = journal.iter().position(is_note);
        if let Some(oldest) = note.filter(|_| notes > NOTES_MAX || is_long) {
            journal.remove(oldest);
        } else if let Some(round) = round(journal).filter(|_| changes > CHANGES_MAX || is_long) {
            journal.drain(round);
        } else {
            break;
        }
    }
    journal.push(line);
}

/// Returns the oldest lines that change the state and lead back to it.
fn round(journal: &[JournalLine]) -> Option<RangeInclusive<usize>> {
    let lines = || journal.iter().enumerate();
    let changes = lines().filter(|(_, line)| line.from != line.to);
    let mut rounds = changes.filter_map(|(first, begin)| {
        let mut later = lines().skip(first + 1);
        let (last, _) = later.find(|(_, line)| line.to == begin.from)?;
        Some(first..=last)
    });
    rounds.next()
}

/// Returns the bytes of the texts of a line.
const fn text_bytes(line: &JournalLine) -> usize {
    line.who.len() + line.why.len()
}

/// Converts a line of a journal.
fn transition(line: &JournalLine) -> Transition {
    Transition {
        at: line.at.into(),
        verb: line.verb,
        from: line.from,
        to: line.to,
        who: line.who.clone(),
        why: line.why.clone(),
    }
}

/// Returns the approximate memory that a reservation uses, in bytes.
pub(crate) fn bytes(reservation: &Reservation) -> u64 {
    let Reservation {
        request,
        path,
        steps,
        journal,
        ..
    } = reservation;
    let text = |text: &String| size_of::<String>() + text.len();
    let named = request.path.iter().flatten().chain(path);
    let lines = journal.iter();
    let lines = lines.map(|line| size_of::<JournalLine>() + line.who.len() + line.why.len());
    // indexes have its number and its owner
    let all = size_of::<Reservation>() * 2
        + reservation.owner.len() * 2
        + size_of_val(steps.as_slice())
        + named.map(text).sum::<usize>()
        + lines.sum::<usize>();
    all as u64
}

/// Returns the names of the links of a grant.
pub(crate) fn names(grant: &Grant, topology: &Topology) -> Vec<String> {
    names_of(grant.path(), topology)
}

/// Returns the names of the links of a path.
pub(crate) fn names_of(path: &Path, topology: &Topology) -> Vec<String> {
    let links = path.links().iter();
    links
        .filter_map(|link| Some(topology.about(*link)?.name.clone()))
        .collect()
}

/// Converts steps to their JSON type.
pub(crate) fn steps(granted: &[Granted]) -> Vec<Step> {
    let step = |step: &Granted| Step {
        from: step.from.into(),
        till: step.till.into(),
        rate_bps: step.rate.as_bps(),
    };
    granted.iter().map(step).collect()
}

/// Returns the work of a step in `from..till`, in bits times nanoseconds per second.
pub(crate) fn work(step: &Step, from: Instant, till: Instant) -> u128 {
    let from = step.from.instant().max(from);
    let till = step.till.instant().min(till);
    u128::from(step.rate_bps) * till.since(from).as_nanos()
}

/// Maximum number of journal lines that do not change the state.
const NOTES_MAX: usize = 256;
/// Maximum number of journal lines that change the state.
const CHANGES_MAX: usize = 64;
/// Maximum length of the texts of a journal in bytes. A life without repeated states is shorter.
const JOURNAL_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use lighthaul_booking_client::json::{FlowAt, NewReservation};
    use lighthaul_circuit::flow::Flow;

    use super::*;
    use crate::books::Principal;
    use lighthaul_booking_client::role::Role;

    /// Returns a reservation that is held until 10 and has these steps at 8 b/s.
    fn record(steps: &[(u64, u64)], end: u64) -> Record {
        let step = |(from, till): &(u64, u64)| Step {
            from: Timestamp(*from),
            till: Timestamp(*till),
            rate_bps: 8,
        };
        let reservation = Reservation {
            id: 1,
            owner: "ada".to_owned(),
            state: ReservationState::Reserved,
            request: NewReservation::default(),
            path: Vec::new(),
            steps: steps.iter().map(step).collect(),
            packet_overhead_bytes: 0,
            promised_end: Timestamp(end),
            hold_till: Some(Timestamp(10)),
            created: Timestamp(0),
            changed: Timestamp(0),
            journal: Vec::new(),
            failure: None,
        };
        Record::new(reservation, 7, Timestamp(10))
    }

    fn turned(record: &Record, now: u64, verbs: &[Verb]) -> Record {
        let mut record = record.clone();
        for verb in verbs {
            act(now, |act| record.transition(act, *verb).map(|_| ()));
        }
        record
    }

    fn act(now: u64, done: impl FnOnce(Action<'_>) -> Result<()>) {
        let (now, principal) = (Timestamp(now), Principal::new("ada", Role::User));
        let why = "because";
        done(Action {
            now,
            principal: &principal,
            why,
        })
        .unwrap();
    }

    #[test]
    fn ended_reservation_keeps_its_steps_before_the_end() {
        let record = record(&[(5, 10), (10, 20), (25, 30)], 30);
        for (now, kept) in [
            (5, vec![]),
            (10, vec![(5, 10)]),
            (15, vec![(5, 10), (10, 15)]),
            (22, vec![(5, 10), (10, 20)]),
            (25, vec![(5, 10), (10, 20)]),
        ] {
            let ended = turned(&record, now, &[Verb::Terminate]);
            let steps = ended.reservation.steps.iter();
            let steps: Vec<_> = steps.map(|step| (step.from.0, step.till.0)).collect();
            assert_eq!(steps, kept, "at {now}");
            assert_eq!(ended.reservation.changed, Timestamp(now));
            assert_eq!(
                (ended.reservation.failure.as_ref(), ended.is_live()),
                (None, false)
            );
        }
        let failed = turned(&record, 1, &[Verb::Fail]);
        assert_eq!(failed.reservation.failure.as_deref(), Some("because"));
        let committed = turned(&record, 1, &[Verb::Commit]);
        assert_eq!(committed.reservation.failure, None);
        assert_eq!(committed.reservation.steps, record.reservation.steps);
        assert!(committed.is_live());
    }

    #[test]
    fn journal_keeps_creation_state_changes_and_latest_notes() {
        let mut record = record(&[], 30);
        act(0, |act| record.note(act, Verb::Reserve));
        act(1, |act| record.note(act, Verb::Extend));
        act(2, |act| record.transition(act, Verb::Commit).map(|_| ()));
        for now in 3..3 + NOTES_MAX as u64 {
            act(now, |act| record.note(act, Verb::Shrink));
        }
        let ends = |record: &Record| {
            let verbs = record
                .reservation
                .journal
                .iter()
                .map(|line| (line.at.0, line.verb));
            let verbs: Vec<_> = verbs.collect();
            (verbs.len(), verbs[..3].to_vec())
        };
        let first = [(0, Verb::Reserve), (2, Verb::Commit), (3, Verb::Shrink)];
        assert_eq!(ends(&record), (NOTES_MAX + 2, first.to_vec()));
        act(1000, |act| record.note(act, Verb::Move));
        let next = [(0, Verb::Reserve), (2, Verb::Commit), (4, Verb::Shrink)];
        assert_eq!(ends(&record), (NOTES_MAX + 2, next.to_vec()));
        assert_eq!(record.reservation.changed, Timestamp(1000));
        assert_eq!(Record::read(&record.doc().unwrap()).unwrap(), record);
    }

    /// A user can provision and deprovision a reservation all the time.
    #[test]
    fn journal_has_limits_of_lines_and_bytes_and_can_be_read() {
        let mut record = record(&[(5, 10)], 30);
        let round = [Verb::Provision, Verb::Activate, Verb::Deprovision];
        let (now, principal) = (Timestamp(1), Principal::new("ada", Role::User));
        let long = "\u{1}".repeat(2000);
        for (why, lines) in [("", CHANGES_MAX), (long.as_str(), JOURNAL_BYTES_MAX / 1024)] {
            let act = Action {
                now,
                principal: &principal,
                why,
            };
            if record.reservation.journal.is_empty() {
                record.note(act, Verb::Reserve).unwrap();
                record.transition(act, Verb::Commit).unwrap();
            }
            for nth in 0..200 {
                record.transition(act, round[nth % 3]).unwrap();
                record.note(act, Verb::Extend).unwrap();
            }
            let journal = &record.reservation.journal;
            let changes = journal.iter().filter(|line| line.from != line.to).count();
            assert!(changes <= lines, "{changes} changes");
            assert!(journal.iter().map(text_bytes).sum::<usize>() <= JOURNAL_BYTES_MAX);
            let verbs: Vec<Verb> = journal.iter().map(|line| line.verb).collect();
            assert_eq!(verbs[0], Verb::Reserve);
            assert_eq!(verbs.last(), Some(&Verb::Extend));
            assert_eq!(Record::read(&record.doc().unwrap()).unwrap(), record);
            record.transition(act, Verb::Deprovision).unwrap();
        }
    }

    #[test]
    fn notes_up_to_the_maximum_are_kept() {
        let mut record = record(&[], 30);
        for now in 0..NOTES_MAX as u64 {
            act(now, |act| record.note(act, Verb::Extend));
        }
        assert_eq!(record.reservation.journal.len(), NOTES_MAX);
    }

    #[test]
    fn due_change_depends_on_the_state() {
        let held = record(&[(5, 20), (25, 30)], 30);
        let due = |verbs: &[Verb]| turned(&held, 1, verbs).due().map(|(at, verb)| (at.0, verb));
        assert_eq!(due(&[]), Some((10, Verb::TimeOut)));
        assert_eq!(due(&[Verb::Commit]), Some((30, Verb::Terminate)));
        let made = [Verb::Commit, Verb::Provision];
        assert_eq!(due(&made), Some((5, Verb::Activate)));
        assert_eq!(
            due(&[made[0], made[1], Verb::Activate]),
            Some((30, Verb::Release))
        );
        assert_eq!(due(&[Verb::Terminate]), None);
        // a reservation without steps is not activated, and a device reports when a circuit carries
        // packets
        let empty = turned(&record(&[], 30), 1, &made);
        assert_eq!(empty.due(), Some((Timestamp(30), Verb::Release)));
        let mut circuit = turned(&held, 1, &made);
        circuit.reservation.request.flow = Some(FlowAt {
            interface: "eth1".to_owned(),
            packets: Flow::ALL,
        });
        assert_eq!(circuit.due(), Some((Timestamp(30), Verb::Release)));
    }

    #[test]
    fn reservation_has_ended_after_its_end_or_its_hold() {
        let held = record(&[(5, 20), (25, 30)], 30);
        let made = turned(&held, 1, &[Verb::Commit, Verb::Provision]);
        for (record, end) in [
            (&held, 10),
            (&turned(&held, 1, &[Verb::Commit]), 30),
            (&made, 30),
            (&turned(&made, 5, &[Verb::Activate]), 30),
            (&turned(&made, 5, &[Verb::Release]), 30),
        ] {
            let over: Vec<u64> = (0..40)
                .filter(|now| record.is_over(Timestamp(*now)))
                .collect();
            assert_eq!(
                over,
                (end..40).collect::<Vec<_>>(),
                "{:?}",
                record.reservation.state
            );
        }
    }

    #[test]
    fn only_work_within_the_window_is_included() {
        let step = record(&[(10, 20)], 20).reservation.steps[0];
        for (from, till, bits) in [
            (0, 40, 80),
            (12, 15, 24),
            (15, 40, 40),
            (0, 10, 0),
            (20, 40, 0),
        ] {
            let (from, till) = (Timestamp(from).instant(), Timestamp(till).instant());
            assert_eq!(work(&step, from, till), bits);
        }
    }

    #[test]
    fn memory_of_a_reservation_includes_all_parts() {
        let empty = record(&[], 30);
        // indexes have both once more
        let least = 2 * (size_of::<Reservation>() + "ada".len()) as u64;
        assert_eq!((empty.bytes(), bytes(&empty.reservation)), (least, least));
        let link = || vec!["link".to_owned()];
        let named = size_of::<String>() + "link".len();
        let line = size_of::<JournalLine>() + "ada".len() + "because".len();
        let grows = |change: &dyn Fn(&mut Record), by: usize| {
            let mut larger = empty.clone();
            change(&mut larger);
            assert_eq!(larger.bytes(), least + by as u64);
        };
        grows(&|one| one.reservation.path = link(), named);
        grows(&|one| one.reservation.request.path = Some(link()), named);
        let steps = record(&[(5, 20)], 20).reservation.steps;
        grows(
            &|one| one.reservation.steps.clone_from(&steps),
            size_of::<Step>(),
        );
        grows(&|one| act(1, |act| one.note(act, Verb::Extend)), line);
    }
}
