//! Refusal of an event.

/// Event that the state of a machine does not permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state {state} does not permit {event}: query the connection for its states")]
pub struct InvalidTransition {
    /// Name of the state.
    pub state: &'static str,
    /// Name of the event.
    pub event: &'static str,
}
