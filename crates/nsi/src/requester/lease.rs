//! Leased circuit, and the reasons of a failed lease.

use std::fmt;

use lighthaul_booking_client::json::Timestamp;

use crate::message::{Operation, ServiceException};

/// Circuit that a provider has promised and provisioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Connection at the provider.
    pub connection_id: String,
    /// Rate in megabits a second.
    pub capacity_mbps: u64,
    /// Start.
    pub start: Timestamp,
    /// End, exclusive.
    pub end: Timestamp,
    /// Point at which the circuit starts, with its label.
    pub source: String,
    /// Point at which the circuit ends, with its label.
    pub dest: String,
}

/// Step of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reserve the capacity.
    Reserve,
    /// An operation on the connection.
    Operation(Operation),
    /// Query the connection.
    Query,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserve => "reserve",
            Self::Operation(operation) => operation.names().0,
            Self::Query => "querySummarySync",
        })
    }
}

/// Reason why a step of a lease has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The provider cannot be reached.
    #[error("cannot send {step} to {url}: {why}; check the URL and the network")]
    Network {
        /// Step.
        step: Step,
        /// URL of the provider.
        url: String,
        /// Reason of the failure.
        why: String,
    },
    /// The token would be sent without TLS.
    #[error(
        "the token would reach {0} in clear text, where others can read it: write https://, or an address of this host"
    )]
    ClearText(String),
    /// The provider does not follow the protocol.
    #[error("{url} answers {step} with {why}: check that the URL is that of an NSI provider")]
    Protocol {
        /// Step.
        step: Step,
        /// URL of the provider.
        url: String,
        /// Description of the wrong answer.
        why: String,
    },
    /// The provider refuses the step.
    #[error("the provider refuses {step}: {why}")]
    Refused {
        /// Step.
        step: Step,
        /// Reason of the refusal.
        why: Box<ServiceException>,
    },
    /// The provider has not confirmed the step in time.
    #[error(
        "the provider has not confirmed {0} in time: check that it reaches the URL for confirmations"
    )]
    Timeout(Step),
    /// The provider does not know the connection.
    #[error("the provider has no connection {0}: reserve again")]
    Gone(String),
    /// The provider has confirmed another circuit.
    #[error("the provider has confirmed another circuit: {0}; ask its operator")]
    OtherCircuit(&'static str),
    /// The lease has failed, and its connection could not be terminated.
    #[error("{why}; the connection {connection_id} remains ({left}): terminate it")]
    Left {
        /// Reason of the failure.
        why: Box<Self>,
        /// Connection that remains at the provider.
        connection_id: String,
        /// Reason why the connection could not be terminated.
        left: Box<Self>,
    },
}
