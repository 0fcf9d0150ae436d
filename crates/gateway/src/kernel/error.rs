//! What goes wrong where the kernel is told what to do with packets, and what to do about it.

use std::io;

/// Why the kernel does not do what was asked for, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be.
    #[error("{0}")]
    Misuse(String),
    /// A program is missing.
    #[error("cannot {what}: it takes {tool}, which is not installed here: install {package}")]
    NoTool {
        /// What was to be done.
        what: &'static str,
        /// The program.
        tool: &'static str,
        /// What it comes with.
        package: &'static str,
    },
    /// This process may not.
    #[error(
        "cannot {0}: it takes root, or CAP_NET_ADMIN and for a cluster's address CAP_NET_RAW, in this network namespace"
    )]
    NotPermitted(String),
    /// Somebody else does it.
    #[error("another gateway {0} on this host already: stop that one first")]
    Occupied(&'static str),
    /// A program failed.
    #[error("cannot {what}: {tool} says: {why}")]
    Tool {
        /// What was to be done.
        what: &'static str,
        /// The program.
        tool: &'static str,
        /// What it says.
        why: String,
    },
    /// The kernel refused.
    #[error("cannot {what}: {source}")]
    World {
        /// What was to be done.
        what: &'static str,
        /// Its reason.
        source: io::Error,
    },
}

impl Error {
    /// What `map_err` takes to say what the kernel refused.
    pub(crate) fn world(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| {
            if source.kind() == io::ErrorKind::PermissionDenied {
                Self::NotPermitted(what.to_owned())
            } else {
                Self::World { what, source }
            }
        }
    }
}
