//! Reservation state machine (GFD.237, section 4.2).
//!
//! ```text
//! Start -> Checking -> Held -> Committing -> Start
//!              |        | \                   ^
//!           Failed      |  Timeout            |
//!              \________|______\__> Aborting __/
//! ```
//!
//! A commit after the timeout is permitted here, and the provider answers that it has failed.

use serde::{Deserialize, Serialize};

use super::transition::InvalidTransition;

/// State of the machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum ReservationState {
    /// Nothing is requested: before the first reservation, or after its commit.
    #[default]
    Start,
    /// The capacity is being searched.
    Checking,
    /// The capacity is not available.
    Failed,
    /// The hold is being cancelled.
    Aborting,
    /// The capacity is held for a limited time.
    Held,
    /// The capacity is being promised.
    Committing,
    /// The hold was not committed in time.
    Timeout,
}

/// Event that changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReservationEvent {
    /// Request for a reservation.
    Reserve,
    /// Capacity was found.
    Confirmed,
    /// Capacity was not found.
    Failed,
    /// Request to commit.
    Commit,
    /// The commit was made.
    Committed,
    /// The commit was not possible.
    CommitFailed,
    /// Request to cancel the hold.
    Abort,
    /// The hold was cancelled.
    Aborted,
    /// The hold expired.
    TimedOut,
}

impl ReservationState {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Start,
        Self::Checking,
        Self::Failed,
        Self::Aborting,
        Self::Held,
        Self::Committing,
        Self::Timeout,
    ];

    /// Returns the state after an event, if the state permits it.
    pub const fn after(self, event: ReservationEvent) -> Result<Self, InvalidTransition> {
        use ReservationEvent as Event;
        match (self, event) {
            (Self::Start, Event::Reserve) => Ok(Self::Checking),
            (Self::Checking, Event::Confirmed) => Ok(Self::Held),
            (Self::Checking, Event::Failed) => Ok(Self::Failed),
            (Self::Held | Self::Timeout, Event::Commit) => Ok(Self::Committing),
            (Self::Committing, Event::Committed | Event::CommitFailed)
            | (Self::Aborting, Event::Aborted) => Ok(Self::Start),
            (Self::Held | Self::Failed | Self::Timeout, Event::Abort) => Ok(Self::Aborting),
            (Self::Held, Event::TimedOut) => Ok(Self::Timeout),
            (state, event) => Err(InvalidTransition {
                state: state.name(),
                event: event.name(),
            }),
        }
    }

    /// Returns the name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "ReserveStart",
            Self::Checking => "ReserveChecking",
            Self::Failed => "ReserveFailed",
            Self::Aborting => "ReserveAborting",
            Self::Held => "ReserveHeld",
            Self::Committing => "ReserveCommitting",
            Self::Timeout => "ReserveTimeout",
        }
    }

    /// Returns the state with a name in messages.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl ReservationEvent {
    /// All events.
    pub const ALL: [Self; 9] = [
        Self::Reserve,
        Self::Confirmed,
        Self::Failed,
        Self::Commit,
        Self::Committed,
        Self::CommitFailed,
        Self::Abort,
        Self::Aborted,
        Self::TimedOut,
    ];

    /// Returns the name in error messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Confirmed => "reserveConfirmed",
            Self::Failed => "reserveFailed",
            Self::Commit => "reserveCommit",
            Self::Committed => "reserveCommitConfirmed",
            Self::CommitFailed => "reserveCommitFailed",
            Self::Abort => "reserveAbort",
            Self::Aborted => "reserveAbortConfirmed",
            Self::TimedOut => "reserveTimeout",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows of the table of the standard: state, event, next state.
    const TABLE: [(&str, &str, &str); 12] = [
        ("ReserveStart", "reserve", "ReserveChecking"),
        ("ReserveChecking", "reserveConfirmed", "ReserveHeld"),
        ("ReserveChecking", "reserveFailed", "ReserveFailed"),
        ("ReserveHeld", "reserveCommit", "ReserveCommitting"),
        ("ReserveHeld", "reserveAbort", "ReserveAborting"),
        ("ReserveHeld", "reserveTimeout", "ReserveTimeout"),
        ("ReserveFailed", "reserveAbort", "ReserveAborting"),
        ("ReserveTimeout", "reserveAbort", "ReserveAborting"),
        ("ReserveTimeout", "reserveCommit", "ReserveCommitting"),
        (
            "ReserveCommitting",
            "reserveCommitConfirmed",
            "ReserveStart",
        ),
        ("ReserveCommitting", "reserveCommitFailed", "ReserveStart"),
        ("ReserveAborting", "reserveAbortConfirmed", "ReserveStart"),
    ];

    #[test]
    fn every_pair_of_state_and_event_follows_the_table() {
        for state in ReservationState::ALL {
            assert_eq!(ReservationState::named(state.name()), Some(state));
            for event in ReservationEvent::ALL {
                let row = TABLE
                    .iter()
                    .find(|(from, by, _)| *from == state.name() && *by == event.name());
                let next = state.after(event).ok().map(ReservationState::name);
                assert_eq!(next, row.map(|(_, _, to)| *to), "{state:?} {event:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn commit_is_confirmed_only_after_capacity_was_found(
            events in prop::collection::vec(0..ReservationEvent::ALL.len(), 0..40),
        ) {
            let (mut state, mut is_found) = (ReservationState::default(), false);
            for event in events.into_iter().map(|nth| ReservationEvent::ALL[nth]) {
                let Ok(next) = state.after(event) else { continue };
                match event {
                    ReservationEvent::Confirmed => is_found = true,
                    ReservationEvent::Reserve | ReservationEvent::Aborted => is_found = false,
                    ReservationEvent::Committed => prop_assert!(is_found),
                    ReservationEvent::Failed
                    | ReservationEvent::Commit
                    | ReservationEvent::CommitFailed
                    | ReservationEvent::Abort
                    | ReservationEvent::TimedOut => {}
                }
                state = next;
            }
        }
    }
}
