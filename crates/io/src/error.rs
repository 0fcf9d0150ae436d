//! Errors of transfers between two hosts, by their cause.

use std::io;

/// Reason why a transfer cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call to the operating system failed.
    #[error("{what}: {source}")]
    World {
        /// Failed operation and its object, as a sentence: "cannot receive datagrams".
        what: String,
        /// Error that the operating system returned.
        source: io::Error,
    },
    /// The peer cannot be reached, or its connection has ended.
    #[error("{0}")]
    Network(String),
    /// The peer violated the protocol.
    #[error("the peer misbehaved: {0}")]
    PeerMisbehaved(String),
    /// The peer did not answer before a deadline.
    #[error("{0}")]
    TimedOut(String),
    /// The disk, or another part behind a store, failed.
    #[error("{0}")]
    Store(String),
    /// A thread of this process panicked.
    #[error("internal error in the {0}; please report this fault of lighthaul")]
    Internal(String),
    /// The user asked the process to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Creates an error of the operating system. `what` is the beginning of its message: "cannot receive datagrams".
    pub fn world(what: impl Into<String>, source: io::Error) -> Self {
        Self::World {
            what: what.into(),
            source,
        }
    }
}
