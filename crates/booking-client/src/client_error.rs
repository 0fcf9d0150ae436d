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

impl ClientError {
    /// Returns true if the same request may succeed later: the scheduler is away or busy.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Problem(problem) => MAY_PASS.contains(&problem.status),
            Self::Network { .. } => true,
            Self::ClearText { .. } | Self::Untrusted { .. } | Self::Protocol { .. } => false,
        }
    }
}

/// Statuses of HTTP after which the same request may succeed.
pub(crate) const MAY_PASS: [u16; 4] = [429, 502, 503, 504];
