//! Errors of the lab, by their cause.

use std::io;

/// Reason why a lab or figure failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The description or plan is invalid.
    #[error("{0}")]
    Misuse(String),
    /// A flow of a contest failed.
    #[error("a flow ended early: {0}")]
    Flow(#[from] lighthaul_io::error::Error),
    /// The operating system or a tool failed.
    #[error("cannot {what}: {why}")]
    World {
        /// Failed operation, as an infinitive: "read plan.toml".
        what: String,
        /// Error of the operating system or the tool.
        why: io::Error,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates the function for `map_err` that adds the failed operation `what`, an infinitive.
    pub fn world(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |why| Self::World {
            what: what.into(),
            why,
        }
    }
}
