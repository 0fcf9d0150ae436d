//! Faults of a scheduler's settings and of its start.
//!
//! Those of books, circuits and NSI keep the texts of their crates.

use std::path::PathBuf;

use lighthaul_booking::error::Error as Refused;
use lighthaul_circuit::error::Error as CircuitError;
use lighthaul_nsi::provider::{ConfigError as NsiConfigError, OpenError as NsiOpenError};
use lighthaul_session::error::{Code, Coded};

/// Fault of a scheduler.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchedulerFault {
    /// The store is shared, and other instances cannot reach this instance.
    #[error(
        "other instances with this store cannot find this one at port 0: give --listen a port, or --url the address where they reach it"
    )]
    SharedPort,
    /// An unknown kind of store.
    #[error("unknown kind of store {0}://: give a file or a postgres:// URL with --store")]
    StoreKind(String),
    /// A store in a directory that does not exist.
    #[error("the directory {} of the store does not exist: create it, or give another --store", .0.display())]
    StoreFolder(PathBuf),
    /// Name of several devices.
    #[error(
        "device {0} has several drivers: name it in only one of --shape, --device and the [interfaces] of --switch"
    )]
    SameDevice(String),
    /// Device that is given up, and has a driver nevertheless.
    #[error("device {0} has a driver, and is named by --give-up: remove one of them")]
    GivenUpDevice(String),
    /// Devices that may have circuits, without drivers.
    #[error(
        "{names} may still have circuits of reservations, and has no driver: give it one with --shape, --device or \
         --switch, or write it off with --give-up {names}",
        names = .0.join(",")
    )]
    MissingDevices(Vec<String>),
    /// Settings of circuits that a driver refuses.
    #[error("{0}")]
    Circuit(CircuitError),
    /// A URL of keys without TLS.
    #[error("keys from {0} could be forged on the way: give an https:// URL with --jwks")]
    ForgeableKeys(String),
    /// TLS that cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// Settings of NSI that are wrong.
    #[error("{0}")]
    Nsi(NsiConfigError),
    /// A port of NSI at a node that does not exist.
    #[error("the topology has no node {0}: name one of its nodes in the settings of NSI")]
    NsiNode(String),
    /// A store of NSI connections that cannot be used.
    #[error("{0}")]
    NsiStore(NsiOpenError),
    /// A store that cannot be used.
    #[error("{0}")]
    Books(Refused),
    /// A queue of jobs that cannot be used.
    #[error("{0}")]
    Jobs(lighthaul_queue::Error),
}

impl Coded for SchedulerFault {
    fn code(&self) -> Code {
        match self {
            Self::Books(refused) => of_books(refused),
            Self::Jobs(_) => Code::Open,
            Self::SharedPort
            | Self::StoreKind(_)
            | Self::StoreFolder(_)
            | Self::SameDevice(_)
            | Self::GivenUpDevice(_)
            | Self::MissingDevices(_)
            | Self::Circuit(_)
            | Self::ForgeableKeys(_)
            | Self::Tls(_)
            | Self::Nsi(_)
            | Self::NsiNode(_)
            | Self::NsiStore(_) => Code::Usage,
        }
    }
}

fn of_books(refused: &Refused) -> Code {
    match refused {
        Refused::Store(_) | Refused::Io(_) => Code::Io,
        Refused::OtherWriter { .. } => Code::Network,
        Refused::Setup(_)
        | Refused::Request(_)
        | Refused::Refused(_)
        | Refused::Transition(_)
        | Refused::Quota(_)
        | Refused::Policy(_)
        | Refused::Overlap(_)
        | Refused::NotFound { .. }
        | Refused::UnknownLink(_)
        | Refused::Forbidden { .. }
        | Refused::EventsDropped { .. }
        | Refused::KeyReused(_) => Code::Usage,
    }
}
