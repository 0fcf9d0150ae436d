//! Faults of a peer that breaks the protocol.

use crate::error::{Code, Coded};

/// Fault of a peer that breaks the protocol of a session or of a topic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerFault {
    /// A message at a point where another, which is named, is due.
    #[error("the peer sent an unexpected message instead of {0}")]
    Unexpected(&'static str),
    /// A message that does not decode.
    #[error("the peer sent a malformed message; do both sides run the same version?")]
    Malformed,
    /// A part of a message that exceeds its bound, which is named.
    #[error("the peer sent {0}; do both sides run the same version?")]
    Oversized(String),
    /// A value that contradicts earlier messages.
    #[error("the peer sent {0}")]
    Invalid(&'static str),
}

impl Coded for PeerFault {
    fn code(&self) -> Code {
        Code::Protocol
    }
}
