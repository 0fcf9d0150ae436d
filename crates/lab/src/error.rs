//! What goes wrong with a lab, and whose fault it is.

use std::io;

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The description makes no sense.
    #[error("{0}")]
    Misuse(String),
    /// A flow of a contest did not go on.
    #[error("a flow ended early: {0}")]
    Flow(#[from] lighthaul_io::error::Error),
    /// This machine cannot or will not.
    #[error("cannot {what}: {why}")]
    World {
        /// What was tried.
        what: String,
        /// What the kernel or a tool answered.
        why: io::Error,
    },
}

/// What may be an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For `map_err`: the answer to having tried `what`.
    pub fn world(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |why| Self::World {
            what: what.into(),
            why,
        }
    }
}
