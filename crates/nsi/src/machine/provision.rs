//! Provision state machine (GFD.237, section 4.3).
//!
//! ```text
//! Released -> Provisioning -> Provisioned -> Releasing -> Released
//! ```
//!
//! It exists from the first commit on, and may go round as often as the requester likes.

use serde::{Deserialize, Serialize};

use super::transition::InvalidTransition;

/// State of the machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum ProvisionState {
    /// No circuit is wanted.
    #[default]
    Released,
    /// The circuit is being ordered.
    Provisioning,
    /// The circuit exists between start and end of the schedule.
    Provisioned,
    /// The circuit is being removed.
    Releasing,
}

/// Event that changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProvisionEvent {
    /// Request for the circuit.
    Provision,
    /// The circuit is ordered.
    Provisioned,
    /// Request to remove the circuit.
    Release,
    /// The circuit is removed.
    Released,
}

impl ProvisionState {
    /// All states.
    pub const ALL: [Self; 4] = [
        Self::Released,
        Self::Provisioning,
        Self::Provisioned,
        Self::Releasing,
    ];

    /// Returns the state after an event, if the state permits it.
    pub const fn after(self, event: ProvisionEvent) -> Result<Self, InvalidTransition> {
        use ProvisionEvent as Event;
        match (self, event) {
            (Self::Released, Event::Provision) => Ok(Self::Provisioning),
            (Self::Provisioning, Event::Provisioned) => Ok(Self::Provisioned),
            (Self::Provisioned, Event::Release) => Ok(Self::Releasing),
            (Self::Releasing, Event::Released) => Ok(Self::Released),
            (state, event) => Err(InvalidTransition {
                state: state.name(),
                event: event.name(),
            }),
        }
    }

    /// Returns the name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Released => "Released",
            Self::Provisioning => "Provisioning",
            Self::Provisioned => "Provisioned",
            Self::Releasing => "Releasing",
        }
    }

    /// Returns the state with a name in messages.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl ProvisionEvent {
    /// All events.
    pub const ALL: [Self; 4] = [
        Self::Provision,
        Self::Provisioned,
        Self::Release,
        Self::Released,
    ];

    /// Returns the name in error messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Provisioned => "provisionConfirmed",
            Self::Release => "release",
            Self::Released => "releaseConfirmed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provision_states_cycle_and_refuse_any_other_order() {
        use ProvisionEvent as Event;
        let round = [
            (Event::Provision, ProvisionState::Provisioning),
            (Event::Provisioned, ProvisionState::Provisioned),
            (Event::Release, ProvisionState::Releasing),
            (Event::Released, ProvisionState::Released),
        ];
        let mut state = ProvisionState::default();
        for (event, next) in round.into_iter().chain(round) {
            for other in Event::ALL.into_iter().filter(|other| *other != event) {
                let refused = state.after(other).unwrap_err();
                assert_eq!((refused.state, refused.event), (state.name(), other.name()));
            }
            state = state.after(event).unwrap();
            assert_eq!(state, next);
            assert_eq!(ProvisionState::named(state.name()), Some(state));
        }
    }
}
