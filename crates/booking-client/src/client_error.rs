//! Faults of requests to a scheduler.

use crate::json::Problem;

/// Reason for which a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The scheduler refused the request.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// The token would be sent without TLS.
    #[error(
        "the token would reach {url} in clear text, where others can read it: write https://, or an address of this host"
    )]
    ClearText {
        /// URL of the scheduler.
        url: String,
    },
    /// The server cannot prove that it is the scheduler.
    #[error("cannot trust the scheduler at {url}: {why}")]
    Untrusted {
        /// URL of the scheduler.
        url: String,
        /// Reason of the failure.
        why: String,
    },
    /// The scheduler cannot be reached.
    #[error("cannot reach the scheduler at {url}: {why}")]
    Network {
        /// URL of the scheduler.
        url: String,
        /// Reason of the failure.
        why: String,
    },
    /// The server does not follow the protocol.
    #[error("the server at {url} is not a scheduler of this version: {why}")]
    Protocol {
        /// URL of the server.
        url: String,
        /// Reason of the failure.
        why: String,
    },
}
