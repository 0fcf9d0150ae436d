//! What can go wrong between two hosts, by whose fault it is.

use std::io;

/// Why the world could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{what}: {source}")]
    World {
        /// What was being done, to what.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The peer cannot be reached, or is gone.
    #[error("{0}")]
    Network(String),
    /// The peer broke the protocol.
    #[error("the peer misbehaved: {0}")]
    PeerMisbehaved(String),
    /// Nothing was heard for too long.
    #[error("{0}")]
    TimedOut(String),
    /// The disk, or whatever stands behind a store, failed.
    #[error("{0}")]
    Store(String),
    /// The owner asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A refusal by the system while doing `what`.
    pub fn world(what: impl Into<String>, source: io::Error) -> Self {
        Self::World {
            what: what.into(),
            source,
        }
    }
}
