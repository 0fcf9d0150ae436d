//! The life of a reservation, as NSI has it (GFD.237): who may do what when, and what a journal keeps of it.
//!
//! ```text
//! reserved -> committed -> provisioned -> active -> released
//!     \__________\_____________\____________\_____> terminated | failed
//! ```
//!
//! NSI has three machines for this, of which two can be told apart by who waits for whom. There is one calendar here and
//! its answer is at once, so that there is one machine; what is released is not provisioned again, since what it
//! had is free for others at that moment.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A moment of the world's clock, in nanoseconds since 1970: what reservations are written in.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WallTime(pub u64);

/// Where a reservation is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    state: State,
    /// Who does not commit till then loses it.
    hold_till: WallTime,
}

/// What a reservation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Capacity is held, for a while.
    Reserved,
    /// Capacity is promised.
    Committed,
    /// Devices have its circuits and will change them by themselves.
    Provisioned,
    /// Its circuits carry packets.
    Active,
    /// It is over, early or not; nothing is kept for it.
    Released,
    /// Somebody called it off, or did not commit in time.
    Terminated,
    /// Something broke, and nothing is kept for it.
    Failed,
}

/// What somebody does with a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// To hold capacity: what every reservation begins with.
    Reserve,
    /// To make it larger.
    Extend,
    /// To make it smaller.
    Shrink,
    /// To give it other times or another path, say out of the way of an outage.
    Move,
    /// To take up what is held.
    Commit,
    /// To have devices make its circuits.
    Provision,
    /// Its first step has begun.
    Activate,
    /// To leave what is left of it to others.
    Release,
    /// To call it off.
    Terminate,
    /// To find that nobody has committed in time.
    TimeOut,
    /// To give it up because something broke.
    Fail,
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// When.
    pub at: WallTime,
    /// What was done.
    pub verb: Verb,
    /// From which state.
    pub from: State,
    /// To which.
    pub to: State,
    /// By whom: a user, a device, or a clock.
    pub who: String,
    /// Why.
    pub why: String,
}

/// Who does something, when and why.
#[derive(Clone, Copy, Debug)]
pub struct Act<'a> {
    /// When.
    pub at: WallTime,
    /// By whom; no more than [`WHO_MAX`] bytes are kept.
    pub who: &'a str,
    /// Why; no more than [`WHY_MAX`] bytes are kept.
    pub why: &'a str,
}

impl Reservation {
    /// Capacity that is held till `hold_till`.
    pub const fn reserve(hold_till: WallTime) -> Self {
        Self {
            state: State::Reserved,
            hold_till,
        }
    }

    /// The one that a journal tells of, which says which line is wrong if one does not follow from those before.
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

    /// Does `verb`, and answers with the line for the journal; what may not be done changes nothing.
    pub fn handle(&mut self, verb: Verb, act: Act<'_>) -> Result<Transition, Illegal> {
        let from = self.state;
        let is_late = act.at >= self.hold_till;
        let to = match (from, verb) {
            (State::Reserved, Verb::Commit) if is_late => return Err(Illegal::TooLate),
            (State::Reserved, Verb::TimeOut) if !is_late => return Err(Illegal::TooEarly),
            (State::Reserved, Verb::Commit) => State::Committed,
            (State::Reserved, Verb::TimeOut) => State::Terminated,
            (State::Committed, Verb::Provision) => State::Provisioned,
            (State::Provisioned, Verb::Activate) => State::Active,
            (State::Provisioned | State::Active, Verb::Release) => State::Released,
            (State::Reserved, Verb::Reserve) => State::Reserved,
            (from, Verb::Extend | Verb::Shrink | Verb::Move) if !from.is_final() => from,
            (from, Verb::Terminate) if !from.is_final() => State::Terminated,
            (from, Verb::Fail) if !from.is_final() => State::Failed,
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

    /// Lets go what was held too long, if it was.
    pub fn handle_time(&mut self, now: WallTime) -> Option<Transition> {
        let act = Act {
            at: now,
            who: "clock",
            why: "nobody committed it in time",
        };
        self.handle(Verb::TimeOut, act).ok()
    }

    /// What it is.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Till when it is held for who has not committed; nothing if that is past caring.
    pub fn hold_till(&self) -> Option<WallTime> {
        (self.state == State::Reserved).then_some(self.hold_till)
    }
}

impl State {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Reserved,
        Self::Committed,
        Self::Provisioned,
        Self::Active,
        Self::Released,
        Self::Terminated,
        Self::Failed,
    ];

    /// Whether nothing comes after it, and nothing is kept for it.
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
    /// Every verb.
    pub const ALL: [Self; 11] = [
        Self::Reserve,
        Self::Extend,
        Self::Shrink,
        Self::Move,
        Self::Commit,
        Self::Provision,
        Self::Activate,
        Self::Release,
        Self::Terminate,
        Self::TimeOut,
        Self::Fail,
    ];

    /// What was done, as in "extended".
    pub const fn participle(self) -> &'static str {
        match self {
            Self::Reserve => "reserved",
            Self::Extend => "extended",
            Self::Shrink => "shrunk",
            Self::Move => "moved",
            Self::Commit => "committed",
            Self::Provision => "provisioned",
            Self::Activate => "activated",
            Self::Release => "released",
            Self::Terminate => "terminated",
            Self::TimeOut => "timed out",
            Self::Fail => "failed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why something was not done with a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// It does not come after what is.
    #[error("a reservation that is {from} cannot be {}: {}", verb.participle(), advice(*from, *verb))]
    Order {
        /// What it is.
        from: State,
        /// What was to be done.
        verb: Verb,
    },
    /// It was held too long.
    #[error(
        "the hold is over, and what was held is free for others: reserve again, and commit sooner"
    )]
    TooLate,
    /// It is still held.
    #[error("the hold is not over yet: terminate it if it is not wanted")]
    TooEarly,
}

/// A journal that tells what cannot have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} of the journal does not follow from those before it: restore the store from a copy"
)]
pub struct BrokenJournal {
    /// Counted from 1.
    pub line: usize,
}

/// What would work.
const fn advice(from: State, verb: Verb) -> &'static str {
    match (from, verb) {
        (from, _) if from.is_final() => "reserve again",
        (State::Reserved | State::Committed, Verb::Release) => "terminate it instead",
        (State::Reserved, _) => "commit it first",
        (State::Committed, Verb::Activate) => "provision it first",
        _ => "that is behind it",
    }
}

/// The first bytes of `text`, no more than `most` and no half letter.
fn cut(text: &str, most: usize) -> String {
    let end = (0..=text.len().min(most))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

/// The longest name of who did something.
pub const WHO_MAX: usize = 256;
/// The longest reason.
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

    /// Every line is a state, then what each verb makes of it in the order of [`Verb::ALL`]; a dot is a refusal.
    /// Before the hold is over, a time-out is refused.
    const TABLE: &str = "
        reserved    reserved reserved reserved reserved committed . . . terminated . failed
        committed   . committed committed committed . provisioned . . terminated . failed
        provisioned . provisioned provisioned provisioned . . active released terminated . failed
        active      . active active active . . . released terminated . failed
        released    . . . . . . . . . . .
        terminated  . . . . . . . . . . .
        failed      . . . . . . . . . . .";

    /// The name of the state that the table has, or a dot.
    fn by_table(from: State, verb: Verb) -> &'static str {
        let mut rows = TABLE.lines().map(str::trim);
        let row = rows.find(|row| row.starts_with(from.name())).unwrap();
        let nth = Verb::ALL.iter().position(|each| *each == verb).unwrap();
        row.split_whitespace().nth(nth + 1).unwrap()
    }

    proptest! {
        #[test]
        fn it_does_what_the_table_says(verbs in prop::collection::vec(prop::sample::select(Verb::ALL.to_vec()), 0..20)) {
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
    fn a_hold_ends_when_it_ends() {
        let mut early = Reservation::reserve(HOLD);
        assert_eq!(early.handle_time(WallTime(99)), None);
        assert_eq!(early.hold_till(), Some(HOLD));
        assert!(early.handle(Verb::Commit, act(99)).is_ok());
        assert_eq!(early.handle_time(WallTime(1000)), None);
        assert_eq!(early.hold_till(), None);
        let mut late = Reservation::reserve(HOLD);
        assert_eq!(late.handle(Verb::Commit, act(100)), Err(Illegal::TooLate));
        let line = late.handle_time(HOLD).unwrap();
        assert_eq!((line.to, line.who.as_str()), (State::Terminated, "clock"));
    }

    #[test]
    fn a_journal_that_lies_is_refused_by_its_line() {
        let mut reservation = Reservation::reserve(HOLD);
        let commit = reservation.handle(Verb::Commit, act(1)).unwrap();
        let provision = reservation.handle(Verb::Provision, act(2)).unwrap();
        let swapped = [provision.clone(), commit.clone()];
        assert_eq!(
            Reservation::replay(HOLD, &swapped),
            Err(BrokenJournal { line: 1 })
        );
        let to = State::Active;
        let forged = [commit, Transition { to, ..provision }];
        assert_eq!(
            Reservation::replay(HOLD, &forged),
            Err(BrokenJournal { line: 2 })
        );
    }

    #[test]
    fn a_refusal_says_what_would_work() {
        for (from, verb, says) in [
            (
                State::Released,
                Verb::Commit,
                "a reservation that is released cannot be committed: reserve again",
            ),
            (State::Committed, Verb::Release, "terminate it instead"),
            (State::Reserved, Verb::Provision, "commit it first"),
            (State::Committed, Verb::Activate, "provision it first"),
            (State::Active, Verb::Commit, "behind it"),
        ] {
            let text = Illegal::Order { from, verb }.to_string();
            assert!(text.contains(says), "{text}");
        }
    }

    #[test]
    fn endless_words_are_cut_between_letters() {
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
