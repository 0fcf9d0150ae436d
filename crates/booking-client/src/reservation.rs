//! States of a reservation as in NSI (GFD.237), the transitions between them, and their journal.
//!
//! ```text
//! reserved -> committed -> provisioned -> active -> released
//!     \__________\_____________\____________\_____> terminated | failed
//! ```
//!
//! NSI has three state machines for this, which mainly separate the waiting for different agents. Here one calendar
//! answers at once, so one machine is enough. A released reservation cannot be provisioned again, since its capacity is
//! available to others at once. A circuit that is deprovisioned keeps its capacity: its reservation is committed again.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Wall-clock time in nanoseconds since 1970.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WallTime(pub u64);

/// State of a reservation and the end of its hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    state: ReservationState,
    /// Time at which an uncommitted reservation expires.
    hold_till: WallTime,
}

/// State of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationState {
    /// Capacity is held for a limited time.
    Reserved,
    /// Capacity is promised.
    Committed,
    /// Devices have the circuits and will change their rates on time.
    Provisioned,
    /// The circuits carry packets.
    Active,
    /// The reservation has ended, early or on time, and holds no capacity.
    Released,
    /// A user has terminated the reservation, or it was not committed in time. It holds nothing.
    Terminated,
    /// A component has failed. It holds nothing.
    Failed,
}

/// Operation on a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Hold capacity: the first operation of every reservation.
    Reserve,
    /// Increase the size.
    Extend,
    /// Decrease the size.
    Shrink,
    /// Change the times or the path, for example because of an outage.
    Move,
    /// Promise the held capacity.
    Commit,
    /// Have the devices create the circuits.
    Provision,
    /// Note that the first step has begun.
    Activate,
    /// Have the devices remove the circuits, and keep the capacity.
    Deprovision,
    /// Return the remaining capacity.
    Release,
    /// Cancel the reservation.
    Terminate,
    /// Note that the reservation was not committed in time.
    TimeOut,
    /// Note the failure of a component.
    Fail,
}

/// Entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Time of the operation.
    pub at: WallTime,
    /// Operation.
    pub verb: Verb,
    /// State before.
    pub from: ReservationState,
    /// State after.
    pub to: ReservationState,
    /// Actor: a user, a device, or the clock.
    pub who: String,
    /// Reason of the operation.
    pub why: String,
}

/// Time, actor and reason of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Act<'a> {
    /// Time of the operation.
    pub at: WallTime,
    /// Actor, cut to [`WHO_MAX`] bytes.
    pub who: &'a str,
    /// Reason, cut to [`WHY_MAX`] bytes.
    pub why: &'a str,
}

impl Reservation {
    /// Creates a reservation that holds capacity till `hold_till`.
    pub const fn reserve(hold_till: WallTime) -> Self {
        Self {
            state: ReservationState::Reserved,
            hold_till,
        }
    }

    /// Restores a reservation from its journal. The error names the first entry that contradicts the earlier entries.
    pub fn replay(hold_till: WallTime, journal: &[Transition]) -> Result<Self, BrokenJournal> {
        let mut reservation = Self::reserve(hold_till);
        for (line, entry) in (1..).zip(journal) {
            let act = Act {
                at: entry.at,
                who: &entry.who,
                why: &entry.why,
            };
            let again = reservation.handle(entry.verb, act);
            if again.as_ref() != Ok(entry) {
                return Err(BrokenJournal { line });
            }
        }
        Ok(reservation)
    }

    /// Performs `verb`, and returns the entry for the journal. An illegal operation changes nothing.
    pub fn handle(&mut self, verb: Verb, act: Act<'_>) -> Result<Transition, Illegal> {
        let from = self.state;
        let is_late = act.at >= self.hold_till;
        let to = match (from, verb) {
            (ReservationState::Reserved, Verb::Commit) if is_late => return Err(Illegal::TooLate),
            (ReservationState::Reserved, Verb::TimeOut) if !is_late => {
                return Err(Illegal::TooEarly);
            }
            (ReservationState::Reserved, Verb::Commit) => ReservationState::Committed,
            (ReservationState::Reserved, Verb::TimeOut) => ReservationState::Terminated,
            (ReservationState::Committed, Verb::Provision) => ReservationState::Provisioned,
            (ReservationState::Provisioned, Verb::Activate) => ReservationState::Active,
            (ReservationState::Provisioned | ReservationState::Active, Verb::Deprovision) => {
                ReservationState::Committed
            }
            (ReservationState::Provisioned | ReservationState::Active, Verb::Release) => {
                ReservationState::Released
            }
            (ReservationState::Reserved, Verb::Reserve) => ReservationState::Reserved,
            (from, Verb::Extend | Verb::Shrink | Verb::Move) if !from.is_final() => from,
            (from, Verb::Terminate) if !from.is_final() => ReservationState::Terminated,
            (from, Verb::Fail) if !from.is_final() => ReservationState::Failed,
            _ => return Err(Illegal::Order { from, verb }),
        };
        self.state = to;
        Ok(Transition {
            at: act.at,
            verb,
            from,
            to,
            who: cut(act.who, WHO_MAX),
            why: cut(act.why, WHY_MAX),
        })
    }

    /// Ends an expired hold.
    pub fn handle_time(&mut self, now: WallTime) -> Option<Transition> {
        let act = Act {
            at: now,
            who: "clock",
            why: "it was not committed in time",
        };
        self.handle(Verb::TimeOut, act).ok()
    }

    /// Returns the state.
    pub const fn state(&self) -> ReservationState {
        self.state
    }

    /// Returns the end of the hold, if the reservation is not committed.
    pub fn hold_till(&self) -> Option<WallTime> {
        (self.state == ReservationState::Reserved).then_some(self.hold_till)
    }
}

impl ReservationState {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Reserved,
        Self::Committed,
        Self::Provisioned,
        Self::Active,
        Self::Released,
        Self::Terminated,
        Self::Failed,
    ];

    /// Returns true if no operation is possible any more and no capacity is held.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Released | Self::Terminated | Self::Failed)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Committed => "committed",
            Self::Provisioned => "provisioned",
            Self::Active => "active",
            Self::Released => "released",
            Self::Terminated => "terminated",
            Self::Failed => "failed",
        }
    }
}

impl Verb {
    /// All operations.
    pub const ALL: [Self; 12] = [
        Self::Reserve,
        Self::Extend,
        Self::Shrink,
        Self::Move,
        Self::Commit,
        Self::Provision,
        Self::Activate,
        Self::Deprovision,
        Self::Release,
        Self::Terminate,
        Self::TimeOut,
        Self::Fail,
    ];

    /// Returns the past participle, as in "extended".
    pub const fn participle(self) -> &'static str {
        match self {
            Self::Reserve => "reserved",
            Self::Extend => "extended",
            Self::Shrink => "shrunk",
            Self::Move => "moved",
            Self::Commit => "committed",
            Self::Provision => "provisioned",
            Self::Activate => "activated",
            Self::Deprovision => "deprovisioned",
            Self::Release => "released",
            Self::Terminate => "terminated",
            Self::TimeOut => "timed out",
            Self::Fail => "failed",
        }
    }
}

impl fmt::Display for ReservationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reason why an operation is illegal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// The state of the reservation does not allow the operation.
    #[error("a reservation that is {from} cannot be {}: {}", verb.participle(), advice(*from, *verb))]
    Order {
        /// State of the reservation.
        from: ReservationState,
        /// Refused operation.
        verb: Verb,
    },
    /// The hold has expired.
    #[error(
        "the hold has expired and its capacity is free for others: reserve again, and commit sooner"
    )]
    TooLate,
    /// The hold has not expired.
    #[error("the hold has not expired yet: terminate it if it is not wanted")]
    TooEarly,
}

/// Journal with an impossible entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} of the journal contradicts the lines before it: restore the store from a backup"
)]
pub struct BrokenJournal {
    /// Number of the line, from 1.
    pub line: usize,
}

/// Returns the remedy for a refused operation.
const fn advice(from: ReservationState, verb: Verb) -> &'static str {
    match (from, verb) {
        (from, _) if from.is_final() => "reserve again",
        (ReservationState::Reserved | ReservationState::Committed, Verb::Release) => {
            "terminate it instead"
        }
        (ReservationState::Reserved, _) => "commit it first",
        (ReservationState::Committed, Verb::Activate) => "provision it first",
        _ => "this operation is done already",
    }
}

/// Returns the longest prefix of `text` with at most `most` bytes and whole characters.
pub fn cut(text: &str, most: usize) -> String {
    let end = (0..=text.len().min(most))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

/// Maximum length of the name of an actor, in bytes.
pub const WHO_MAX: usize = 256;
/// Maximum length of a reason, in bytes.
pub const WHY_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOLD: WallTime = WallTime(100);

    fn act(at: u64) -> Act<'static> {
        Act {
            at: WallTime(at),
            who: "ada",
            why: "to see",
        }
    }

    /// Each row is a state and the result of each operation, in the order of [`Verb::ALL`]. A dot is a refusal.
    /// Before the end of the hold, a time-out is refused.
    const TABLE: &str = "
        reserved    reserved reserved reserved reserved committed . . . . terminated . failed
        committed   . committed committed committed . provisioned . . . terminated . failed
        provisioned . provisioned provisioned provisioned . . active committed released terminated . failed
        active      . active active active . . . committed released terminated . failed
        released    . . . . . . . . . . . .
        terminated  . . . . . . . . . . . .
        failed      . . . . . . . . . . . .";

    /// Returns the name of the new state in the table, or a dot.
    fn by_table(from: ReservationState, verb: Verb) -> &'static str {
        let mut rows = TABLE.lines().map(str::trim);
        let row = rows.find(|row| row.starts_with(from.name())).unwrap();
        let nth = Verb::ALL.iter().position(|each| *each == verb).unwrap();
        row.split_whitespace().nth(nth + 1).unwrap()
    }

    proptest! {
        #[test]
        fn transitions_agree_with_the_table(verbs in prop::collection::vec(prop::sample::select(Verb::ALL.to_vec()), 0..20)) {
            let mut reservation = Reservation::reserve(HOLD);
            let mut journal = Vec::new();
            for verb in verbs {
                let before = reservation.clone();
                let expected = by_table(before.state(), verb);
                match reservation.handle(verb, act(50)) {
                    Ok(line) => {
                        prop_assert_eq!(line.to.name(), expected);
                        prop_assert_eq!((line.from, line.to), (before.state(), reservation.state()));
                        prop_assert_eq!((line.who.as_str(), line.why.as_str(), line.at), ("ada", "to see", WallTime(50)));
                        journal.push(line);
                    }
                    Err(why) => {
                        prop_assert_eq!(".", expected);
                        prop_assert_eq!(&reservation, &before);
                        prop_assert!(why.to_string().contains(": "), "{}", why);
                    }
                }
            }
            let text = serde_json::to_string(&journal).unwrap();
            let read: Vec<Transition> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(Reservation::replay(HOLD, &read), Ok(reservation));
        }
    }

    #[test]
    fn uncommitted_reservation_expires_at_the_end_of_its_hold() {
        let mut early = Reservation::reserve(HOLD);
        assert_eq!(early.handle_time(WallTime(99)), None);
        assert_eq!(early.hold_till(), Some(HOLD));
        assert!(early.handle(Verb::Commit, act(99)).is_ok());
        assert_eq!(early.handle_time(WallTime(1000)), None);
        assert_eq!(early.hold_till(), None);
        let mut late = Reservation::reserve(HOLD);
        assert_eq!(late.handle(Verb::Commit, act(100)), Err(Illegal::TooLate));
        let line = late.handle_time(HOLD).unwrap();
        assert_eq!(
            (line.to, line.who.as_str()),
            (ReservationState::Terminated, "clock")
        );
    }

    #[test]
    fn invalid_journal_is_refused_with_its_line() {
        let mut reservation = Reservation::reserve(HOLD);
        let commit = reservation.handle(Verb::Commit, act(1)).unwrap();
        let provision = reservation.handle(Verb::Provision, act(2)).unwrap();
        let swapped = [provision.clone(), commit.clone()];
        assert_eq!(
            Reservation::replay(HOLD, &swapped),
            Err(BrokenJournal { line: 1 })
        );
        let to = ReservationState::Active;
        let forged = [commit, Transition { to, ..provision }];
        assert_eq!(
            Reservation::replay(HOLD, &forged),
            Err(BrokenJournal { line: 2 })
        );
    }

    #[test]
    fn refusal_names_the_remedy() {
        for (from, verb, says) in [
            (
                ReservationState::Released,
                Verb::Commit,
                "a reservation that is released cannot be committed: reserve again",
            ),
            (
                ReservationState::Committed,
                Verb::Release,
                "terminate it instead",
            ),
            (
                ReservationState::Reserved,
                Verb::Provision,
                "commit it first",
            ),
            (
                ReservationState::Committed,
                Verb::Activate,
                "provision it first",
            ),
            (ReservationState::Active, Verb::Commit, "done already"),
        ] {
            let text = Illegal::Order { from, verb }.to_string();
            assert!(text.contains(says), "{text}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut reservation = Reservation::reserve(HOLD);
        let long = "é".repeat(5000);
        let act = Act {
            at: WallTime(1),
            who: &long,
            why: &format!("x{long}"),
        };
        let line = reservation.handle(Verb::Fail, act).unwrap();
        assert_eq!(line.who.len(), WHO_MAX);
        assert_eq!(line.why.len(), WHY_MAX - 1);
    }
}
