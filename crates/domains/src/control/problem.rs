//! Reasons for which a question has no answer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Reason that a service answers with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Problem {
    /// Line that does not decode.
    #[error(
        "the service cannot decode the request; use the same version of lighthaul for the service and this command"
    )]
    Malformed,
    /// Program of another user.
    #[error(
        "only root and the user of the service can use the service of this domain; run the command as one of them"
    )]
    OtherUser,
    /// Too many programs that wait.
    #[error(
        "too many commands wait for the service of this domain; try again when some of them have ended"
    )]
    Busy,
    /// Text that is no end point.
    #[error(
        "end point \"{0}\" is unknown; write DOMAIN:PORT, or add an [[endpoint]] with this name to the configuration"
    )]
    UnknownEndpoint(String),
    /// Path that starts in another domain.
    #[error(
        "end point {from} is in domain {domain}; ask the service of that domain, or start at a port of {me}"
    )]
    Elsewhere {
        /// End point.
        from: String,
        /// Its domain.
        domain: u32,
        /// This domain.
        me: u32,
    },
    /// Port that this domain does not have.
    #[error("domain {domain} has no port {port}; its ports are {known}")]
    UnknownPort {
        /// This domain.
        domain: u32,
        /// Port.
        port: u32,
        /// Known ports.
        known: String,
    },
    /// Tree over domains that are no neighbors.
    #[error(
        "--tree requires every domain of the path to be a neighbor of this one, but {0} is not; add a [[neighbor]] for \
         each, or request the path without --tree"
    )]
    NoNeighbors(String),
    /// Amount or rate of zero, or out of range.
    #[error(
        "{0} is out of range; use at least 1 byte, and rates of 1 b/s to 9.2 Eb/s with the lower one first"
    )]
    OutOfRange(String),
    /// Path that cannot be set up.
    #[error("the path is refused: {0}")]
    Refused(String),
    /// Path that ended before its outcome was reported.
    #[error("the path has ended: {0}; request another one")]
    Over(String),
    /// ID of no path.
    #[error("path {0} is unknown here; `lighthaul path list` shows the paths of this domain")]
    UnknownPath(String),
    /// First digits of no ID.
    #[error("no path begins with {0}; `lighthaul path list` shows the paths of this domain")]
    NoPath(String),
    /// First digits of several IDs.
    #[error("several paths begin with \"{0}\"; give more digits of the ID")]
    SeveralPaths(String),
    /// Path that another domain has requested.
    #[error("path {id} belongs to domain {source_domain}; cancel it there")]
    OtherSource {
        /// ID.
        id: String,
        /// Domain that requested the path.
        source_domain: u32,
    },
    /// Request that the service did not take.
    #[error("{0}")]
    NoOutcome(String),
    /// Service that is being stopped.
    #[error("the service of this domain is being stopped; try again when it has started")]
    Stopping,
}

/// Error of a control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Socket of no running service.
    #[error(
        "cannot reach the service of a domain at {}: {why}; start it with `lighthaul domains serve`, or name its socket \
         with --socket",
        path.display()
    )]
    NotRunning {
        /// Path of the socket.
        path: PathBuf,
        /// Reason of the failure.
        why: String,
    },
    /// Connection that failed.
    #[error("the service at {} did not answer: {why}; its log names the reason", path.display())]
    Lost {
        /// Path of the socket.
        path: PathBuf,
        /// Reason of the failure.
        why: String,
    },
    /// Answer that does not decode.
    #[error("the answer of the service at {} is malformed; use the same version of lighthaul for both", .0.display())]
    Malformed(PathBuf),
    /// Service of another version.
    #[error(
        "the service at {} speaks version {theirs} of the control protocol, and this command version {ours}; {}",
        path.display(),
        remedy(*theirs, *ours)
    )]
    Version {
        /// Path of the socket.
        path: PathBuf,
        /// Version of the service.
        theirs: u32,
        /// Version of this program.
        ours: u32,
    },
    /// Socket that another service uses.
    #[error("another service listens at {}; stop it, or name another socket with --socket", .0.display())]
    InUse(PathBuf),
    /// Socket that cannot be created.
    #[error("cannot create the socket {}: {why}; check the directory, or name another one with --socket", path.display())]
    Create {
        /// Path of the socket.
        path: PathBuf,
        /// Reason of the failure.
        why: String,
    },
    /// Reason that the service answered with.
    #[error("{0}")]
    Problem(Problem),
}

/// Returns the remedy for a service of another version: the older one of both is replaced.
const fn remedy(theirs: u32, ours: u32) -> &'static str {
    if theirs < ours {
        "restart the service with the version of lighthaul that this command has"
    } else {
        "use the version of lighthaul that the service has for this command"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_for_a_version_mismatch_is_to_replace_the_older_version() {
        for (theirs, says) in [(1, "restart the service"), (3, "that the service has")] {
            let path = PathBuf::from("/run/domain");
            let ours = 2;
            let why = ControlError::Version { path, theirs, ours }.to_string();
            assert!(why.contains(says), "{why}");
        }
    }
}
