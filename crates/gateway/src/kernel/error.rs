//! Faults in the configuration of the kernel, with their remedies.

use std::io;

/// Fault in the configuration of the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request can never succeed.
    #[error("{0}")]
    Misuse(String),
    /// A program is not installed.
    #[error("cannot {what}: it needs {tool}, which is not installed here: install {package}")]
    NoTool {
        /// Task of the program.
        what: &'static str,
        /// Program.
        tool: &'static str,
        /// Package of the program.
        package: &'static str,
    },
    /// The process lacks privileges.
    #[error(
        "cannot {0}: it needs root, or CAP_NET_ADMIN (and CAP_NET_RAW for a cluster's address), in this network namespace"
    )]
    NotPermitted(String),
    /// Another gateway does the same on this host.
    #[error("another gateway {0} on this host already: stop that one first")]
    Occupied(&'static str),
    /// A program failed.
    #[error("cannot {what}: {tool} failed: {why}")]
    Tool {
        /// Task of the program.
        what: &'static str,
        /// Program.
        tool: &'static str,
        /// Its standard error.
        why: String,
    },
    /// A call of the kernel failed.
    #[error("cannot {what}: {source}")]
    World {
        /// Task of the call.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
}

impl Error {
    /// Returns the conversion of an error of the kernel, for `map_err`.
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
