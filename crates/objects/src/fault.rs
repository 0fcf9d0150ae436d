//! Faults of object stores, with their messages and exit statuses.

use lighthaul_session::error::{Code, Coded};

/// Fault of a copy or command with an object store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A program without clients of object stores.
    #[error(
        "this program was built without object stores, so it cannot use {0}; build it with `--features objects`"
    )]
    NotBuilt(String),
    /// A request that object stores do not serve.
    #[error("{0}")]
    Request(String),
    /// An option that has no meaning for object stores.
    #[error("{0} does not apply to object stores: omit it")]
    Option(&'static str),
    /// Failed work on an object or bucket.
    #[error("{what}: {why}")]
    Failed {
        /// Work and its object.
        what: String,
        /// Reason, and the remedy where there is one.
        why: String,
        /// Kind of the failure.
        code: Code,
    },
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::NotBuilt(_) | Self::Request(_) | Self::Option(_) => Code::Usage,
            Self::Failed { code, .. } => *code,
        }
    }
}
