//! All messages.

use lighthaul_booking_client::json::Timestamp;
use serde::{Deserialize, Serialize};

use super::criteria::Criteria;
use super::exception::ServiceException;
use super::notification::Notification;
use super::query::{Query, Range, Summary};
use super::states::ConnectionStates;

/// Message of the Connection Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Request for a reservation.
    Reserve(Box<Reserve>),
    /// Name of the connection, as the answer to a request.
    ReserveResponse(String),
    /// The capacity is held.
    ReserveConfirmed(Box<ReserveConfirmed>),
    /// The capacity is not available.
    ReserveFailed(Box<Failure>),
    /// The commit is not possible.
    ReserveCommitFailed(Box<Failure>),
    /// Request that names only a connection.
    Request(Operation, String),
    /// Confirmation of a request that names only a connection.
    Confirmed(Operation, String),
    /// Query of connections.
    Query(QueryKind, Query),
    /// Answer to a query of connections.
    QueryConfirmed(QueryKind, Vec<Summary>),
    /// Query of notifications; the answer is in the response if the first value is true.
    QueryNotification(bool, Range),
    /// Answer to a query of notifications.
    QueryNotificationConfirmed(bool, Vec<Notification>),
    /// Query of results; the answer is in the response if the first value is true.
    QueryResult(bool, Range),
    /// Answer to a query of results.
    QueryResultConfirmed(bool, Vec<ResultEntry>),
    /// Report without a request.
    Notification(Box<Notification>),
    /// Failure of a query.
    Error(Box<ServiceException>),
    /// Answer to all other messages.
    Acknowledgment,
    /// Refusal of a message, as a SOAP fault.
    Fault(Box<ServiceException>),
}

/// Request for a reservation, or for a change of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// Connection to change; none for a new one.
    pub connection_id: Option<String>,
    /// Name that the requester gives.
    pub global_id: Option<String>,
    /// Description that the requester gives.
    pub description: Option<String>,
    /// Criteria.
    pub criteria: Criteria,
}

/// Confirmation of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReserveConfirmed {
    /// ID of the connection.
    pub connection_id: String,
    /// Name that the requester gave.
    pub global_id: Option<String>,
    /// Description that the requester gave.
    pub description: Option<String>,
    /// Criteria with all defaults.
    pub criteria: Criteria,
}

/// Failure of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// ID of the connection.
    pub connection_id: String,
    /// States of the connection.
    pub states: ConnectionStates,
    /// Reason of the failure.
    pub exception: ServiceException,
}

/// Confirmation that was sent earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultEntry {
    /// Number of the result.
    pub id: u64,
    /// Correlation ID of the request.
    pub correlation_id: String,
    /// Time of the confirmation.
    pub at: Timestamp,
    /// Confirmation.
    pub message: Message,
}

/// Operation on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// Promise the held capacity.
    Commit,
    /// Cancel the held capacity.
    Abort,
    /// Make the circuit.
    Provision,
    /// Remove the circuit.
    Release,
    /// End the connection.
    Terminate,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 5] = [
        Self::Commit,
        Self::Abort,
        Self::Provision,
        Self::Release,
        Self::Terminate,
    ];

    /// Returns the names of the request and of its confirmation.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Commit => ("reserveCommit", "reserveCommitConfirmed"),
            Self::Abort => ("reserveAbort", "reserveAbortConfirmed"),
            Self::Provision => ("provision", "provisionConfirmed"),
            Self::Release => ("release", "releaseConfirmed"),
            Self::Terminate => ("terminate", "terminateConfirmed"),
        }
    }
}

/// Type of a query of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueryKind {
    /// Query that is answered by a separate message.
    Summary,
    /// Query that is answered in the response.
    SummarySync,
    /// Query that is answered by a separate message, with the parts of the connection in other networks.
    Recursive,
}

impl QueryKind {
    /// All types.
    pub const ALL: [Self; 3] = [Self::Summary, Self::SummarySync, Self::Recursive];

    /// Returns the names of the query and of its answer.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Summary => ("querySummary", "querySummaryConfirmed"),
            Self::SummarySync => ("querySummarySync", "querySummarySyncConfirmed"),
            Self::Recursive => ("queryRecursive", "queryRecursiveConfirmed"),
        }
    }
}

impl Message {
    /// Returns the name of the element.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reserve(_) => "reserve",
            Self::ReserveResponse(_) => "reserveResponse",
            Self::ReserveConfirmed(_) => "reserveConfirmed",
            Self::ReserveFailed(_) => "reserveFailed",
            Self::ReserveCommitFailed(_) => "reserveCommitFailed",
            Self::Request(operation, _) => operation.names().0,
            Self::Confirmed(operation, _) => operation.names().1,
            Self::Query(kind, _) => kind.names().0,
            Self::QueryConfirmed(kind, _) => kind.names().1,
            Self::QueryNotification(false, _) => "queryNotification",
            Self::QueryNotification(true, _) => "queryNotificationSync",
            Self::QueryNotificationConfirmed(false, _) => "queryNotificationConfirmed",
            Self::QueryNotificationConfirmed(true, _) => "queryNotificationSyncConfirmed",
            Self::QueryResult(false, _) => "queryResult",
            Self::QueryResult(true, _) => "queryResultSync",
            Self::QueryResultConfirmed(false, _) => "queryResultConfirmed",
            Self::QueryResultConfirmed(true, _) => "queryResultSyncConfirmed",
            Self::Notification(notification) => notification.name(),
            Self::Error(_) => "error",
            Self::Acknowledgment => "acknowledgment",
            Self::Fault(_) => "Fault",
        }
    }
}
