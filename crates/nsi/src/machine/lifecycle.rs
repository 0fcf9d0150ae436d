//! Lifecycle state machine (GFD.237, section 4.4).
//!
//! ```text
//! Created -> Terminating -> Terminated
//!   | \_> Failed ___/
//!   \___> PassedEndTime -> Terminating
//! ```

use serde::{Deserialize, Serialize};

use super::transition::InvalidTransition;

/// State of the machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum LifecycleState {
    /// The connection exists.
    #[default]
    Created,
    /// The provider has ended the connection.
    Failed,
    /// The end of the schedule was reached.
    PassedEndTime,
    /// The connection is being ended.
    Terminating,
    /// The connection has ended.
    Terminated,
}

/// Event that changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LifecycleEvent {
    /// Request to end the connection.
    Terminate,
    /// The connection was ended.
    Terminated,
    /// The provider ends the connection.
    ForcedEnd,
    /// The end of the schedule is reached.
    EndTime,
}

impl LifecycleState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Created,
        Self::Failed,
        Self::PassedEndTime,
        Self::Terminating,
        Self::Terminated,
    ];

    /// Returns the state after an event, if the state permits it.
    pub const fn after(self, event: LifecycleEvent) -> Result<Self, InvalidTransition> {
        use LifecycleEvent as Event;
        match (self, event) {
            (Self::Created | Self::Failed | Self::PassedEndTime, Event::Terminate) => {
                Ok(Self::Terminating)
            }
            (Self::Terminating, Event::Terminated) => Ok(Self::Terminated),
            (Self::Created, Event::ForcedEnd) => Ok(Self::Failed),
            (Self::Created, Event::EndTime) => Ok(Self::PassedEndTime),
            (state, event) => Err(InvalidTransition {
                state: state.name(),
                event: event.name(),
            }),
        }
    }

    /// Returns the name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "Created",
            Self::Failed => "Failed",
            Self::PassedEndTime => "PassedEndTime",
            Self::Terminating => "Terminating",
            Self::Terminated => "Terminated",
        }
    }

    /// Returns the state with a name in messages.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl LifecycleEvent {
    /// All events.
    pub const ALL: [Self; 4] = [
        Self::Terminate,
        Self::Terminated,
        Self::ForcedEnd,
        Self::EndTime,
    ];

    /// Returns the name in error messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::Terminated => "terminateConfirmed",
            Self::ForcedEnd => "forcedEnd",
            Self::EndTime => "endTime",
        }
    }
}

impl LifecycleState {
    /// Returns true if no request but a query or `terminate` is permitted any more.
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_state_and_event_follows_the_table() {
        let table = [
            ("Created", "terminate", "Terminating"),
            ("Failed", "terminate", "Terminating"),
            ("PassedEndTime", "terminate", "Terminating"),
            ("Terminating", "terminateConfirmed", "Terminated"),
            ("Created", "forcedEnd", "Failed"),
            ("Created", "endTime", "PassedEndTime"),
        ];
        for state in LifecycleState::ALL {
            assert_eq!(LifecycleState::named(state.name()), Some(state));
            for event in LifecycleEvent::ALL {
                let row = table
                    .iter()
                    .find(|(from, by, _)| *from == state.name() && *by == event.name());
                let next = state.after(event).ok().map(LifecycleState::name);
                assert_eq!(next, row.map(|(_, _, to)| *to), "{state:?} {event:?}");
            }
        }
    }
}
