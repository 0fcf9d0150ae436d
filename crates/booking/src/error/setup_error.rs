//! Faults of the settings, certificates and files of a scheduler.
//!
//! [`SetupError`] is any fault that prevents the start. [`TopologyFileError`] and
//! [`PolicyFileError`] do not name their file: the variant around them adds the path.
//! [`DatabaseUrlError`] is for the URL of the store. Faults of the store and of requests are in
//! [`super::store_error`] and [`super::service_error`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_calendar::config::ConfigError;
use lighthaul_calendar::topology::TopologyError;
use lighthaul_circuit::error as circuit;
use lighthaul_database::DatabaseUrlError;

use super::store_error::TopologyMismatch;

/// Fault of the settings of a scheduler.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Limits of the calendar.
    #[error(transparent)]
    Calendar(#[from] ConfigError),
    /// Topology, or interface of a device.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// Topology that lacks parts of existing reservations.
    #[error(transparent)]
    Mismatch(#[from] TopologyMismatch),
    /// Length of time that is out of range.
    #[error("{what} of {time:?} is out of range: use {least:?} to ten years")]
    Time {
        /// Setting.
        what: &'static str,
        /// Value.
        time: Duration,
        /// Minimum.
        least: Duration,
    },
    /// No events are kept.
    #[error("the number of events to keep is zero: use at least 1")]
    Events,
    /// Topology file.
    #[error("cannot use the topology {}: {why}", .path.display())]
    TopologyFile {
        /// Path of the file.
        path: PathBuf,
        /// Fault.
        why: TopologyFileError,
    },
    /// Policy file.
    #[error("cannot use the policy file {}: {why}", .path.display())]
    PolicyFile {
        /// Path of the file.
        path: PathBuf,
        /// Fault.
        why: PolicyFileError,
    },
    /// URL of the database.
    #[error(transparent)]
    DatabaseUrl(#[from] DatabaseUrlError),
    /// File of certificates or of a key.
    #[error("cannot use {}: {why}; give a PEM file as certificate authorities issue it", .path.display())]
    Pem {
        /// Path of the file.
        path: PathBuf,
        /// Fault.
        why: String,
    },
    /// TLS with this certificate and key.
    #[error("cannot set up TLS: {0}; check the key and the certificate")]
    Tls(String),
    /// Address of a network, without TLS.
    #[error(
        "tokens would cross the network to {0} without encryption: leave TLS on, listen on 127.0.0.1, or give --insecure"
    )]
    Insecure(SocketAddr),
    /// Device for circuits.
    #[error(transparent)]
    Device(#[from] circuit::Error),
}

/// Fault of a topology file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyFileError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(String),
    /// The file exceeds the given maximum of bytes.
    #[error("the file has more than {0} bytes: divide the topology into domains")]
    Length(u64),
    /// The file is not TOML, or has unknown fields.
    #[error("{0}")]
    Toml(String),
    /// The link has no capacity.
    #[error("link {0} has no capacity: give it one, or all that have none with --link-capacity")]
    NoCapacity(String),
    /// The file is not `GraphML`.
    #[error("the file is not GraphML: {0}")]
    NotGraphml(String),
    /// Two nodes have the same identifier.
    #[error("two nodes have the id {0}: give each node a unique id")]
    DuplicateId(String),
    /// An edge ends at an identifier that no node has.
    #[error("an edge ends at {0}, which is not defined: add it to the nodes")]
    UnknownId(String),
    /// The rate of an edge is not a rate.
    #[error("the LinkSpeedRaw {0} is not a rate: write bits a second")]
    Speed(String),
    /// The edge has no rate.
    #[error(
        "the edge from {from} to {to} has no LinkSpeedRaw: add one, or set a default with --link-capacity"
    )]
    NoSpeed {
        /// Source node.
        from: String,
        /// Target node.
        to: String,
    },
    /// The links are not a topology.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// Fault of a policy file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFileError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(String),
    /// The file is not TOML, or has unknown fields.
    #[error("{0}")]
    Toml(String),
    /// The text is not a prefix.
    #[error("\"{0}\" is not a prefix; write it as in 10.1.0.0/16 or 2001:db8::/48")]
    Prefix(String),
    /// A place of jobs is wrong.
    #[error("{0}")]
    JobPlace(String),
}
