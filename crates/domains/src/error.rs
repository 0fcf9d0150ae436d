//! Errors of the service: what failed, on which object, and what to do.

use std::path::PathBuf;

use lighthaul_domain_links::TransportError;

use crate::config::ConfigFault;
use crate::store::StoreError;
use lighthaul_io::host::wall_clock::ClockStep;

/// Error that keeps a service from running.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Configuration file that cannot be read.
    #[error(
        "cannot read the configuration {}: {why}; check the path and its permissions",
        path.display()
    )]
    ReadConfig {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        why: String,
    },
    /// Configuration with a fault.
    #[error("cannot use the configuration {}: {why}", path.display())]
    Config {
        /// Path of the file.
        path: PathBuf,
        /// Fault.
        why: ConfigFault,
    },
    /// Key of this domain that cannot be loaded.
    #[error(
        "cannot load the key of this domain from {}: {why}; check the file, or name another one with key",
        path.display()
    )]
    Key {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        why: String,
    },
    /// Fault of the links to the neighbors.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Fault of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Device that cannot be used.
    #[error(
        "cannot use the device at {interface}: {why}; correct its [[device]], or make the device available"
    )]
    Device {
        /// Name of the interface.
        interface: String,
        /// Reason of the failure.
        why: String,
    },
    /// Device at an interface that its switch does not have.
    #[error(
        "cannot use the device at {interface}: {} has no such interface; add it to its [interfaces], or correct the \
         [[device]]",
        file.display()
    )]
    NoInterface {
        /// Name of the interface.
        interface: String,
        /// Settings of the switch.
        file: PathBuf,
    },
    /// Devices that may have circuits, without a `[[device]]`.
    #[error(
        "the configuration has no [[device]] for {names}, which may still have circuits of paths; add it again, or \
         release its paths with given_up = {list:?} and remove its circuits by hand",
        names = .0.join(", "),
        list = .0
    )]
    MissingDevices(Vec<String>),
    /// Resource that the operating system refused.
    #[error("cannot start the service: {0}; free resources of this host and start it again")]
    Resources(String),
    /// Wall clock that was set.
    #[error(
        "the clock of this host was set {side} by {secs} s while the service ran; synchronize the clock, and start the \
         service again"
    )]
    ClockStep {
        /// Side to which the clock was set.
        side: &'static str,
        /// Length of the step in seconds.
        secs: u64,
    },
    /// Wall clock that is far beyond the last run of the service.
    #[error(
        "the clock of this host is {days} days beyond the last run of the service, and {lost} paths would count as \
         ended and be forgotten; synchronize the clock and start again, or, if it is right, start once with --accept-clock"
    )]
    ClockBeyond {
        /// Whole days since the last run.
        days: u64,
        /// Number of paths that have ended since then.
        lost: usize,
    },
    /// Devices that do not keep up.
    #[error(
        "the devices are {0} changes behind; make them available or faster, and start the service again"
    )]
    DevicesBehind(usize),
    /// Thread that panicked.
    #[error("internal error in the {0}; please report this fault of lighthaul")]
    Internal(String),
    /// Service that has stopped.
    #[error("the service of this domain has stopped; its log names the reason: start it again")]
    Stopped,
    /// Request that the service did not take, or whose outcome was reported already.
    #[error(
        "the service reports no further outcome of this request: it has stopped, the request has ended, or \
         requests_max = {0} is reached; repeat the request later with the same ID"
    )]
    NoOutcome(usize),
}

impl From<ClockStep> for Error {
    fn from(step: ClockStep) -> Self {
        let side = if step.is_forward { "forward" } else { "back" };
        let secs = step.len.as_secs();
        Self::ClockStep { side, secs }
    }
}
