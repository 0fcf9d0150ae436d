//! What goes wrong where the kernel is to hand connections over, and what to do about it.

use std::io;

/// Why connections are not captured, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be.
    #[error("{0}")]
    Misuse(String),
    /// A program is missing.
    #[error(
        "transparent capture takes {tool}, which is not installed here: install {package}, or have programs use SOCKS5"
    )]
    NoTool {
        /// The program.
        tool: &'static str,
        /// What it comes with.
        package: &'static str,
    },
    /// This process may not.
    #[error("cannot {0}: it takes root or CAP_NET_ADMIN in this network namespace")]
    NotPermitted(String),
    /// Somebody else does it.
    #[error("another gateway captures connections on this host already: stop that one first")]
    Occupied,
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
