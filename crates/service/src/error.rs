//! Faults of services.
//!
//! A `Fault` is any reason for which a gateway, a domain, their log or their metrics cannot
//! start or run. Messages name the option that is wrong. The [`Code`] of a fault is the exit
//! status: wrong settings are usage errors, so that a service manager does not restart the service
//! in vain. Faults of domains and the kernel keep the texts of their crates.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use lighthaul_base::Rate;
use lighthaul_capture::kernel::error::Error as KernelError;
use lighthaul_domain_links::TransportError;
use lighthaul_domains::Error as DomainError;
use lighthaul_domains::control::ControlError;
use lighthaul_gateway::cluster::{ClusterError, SettingsError};
use lighthaul_remote::control_code;
use lighthaul_session::error::{Code, Coded};

/// Fault of a gateway or domain, or of the log and the metrics of a service.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A service of a domain that cannot start, or that has ended by itself.
    #[error("{0}")]
    Domain(DomainError),
    /// A socket for local programs that cannot be opened.
    #[error("{0}")]
    Control(ControlError),
    /// A path that ended before its promised end.
    #[error("the path has ended early: {0}; request another one")]
    PathLost(String),
    /// A link that the scheduler does not have.
    #[error("the topology of the scheduler has no link {0}: give one of its links with --link")]
    NoLink(String),
    /// A link with more capacity than the path.
    #[error(
        "link {name} has {capacity}, and the path carries {rate}: give the link at most the rate of the path"
    )]
    WideLink {
        /// Name of the link.
        name: String,
        /// Its capacity.
        capacity: Rate,
        /// Lowest rate of the path.
        rate: Rate,
    },
    /// A link that has capacity without the path.
    #[error(
        "link {0} has capacity after the end of the path: plan an outage for all times first (POST /v1/outages)"
    )]
    OpenLink(String),
    /// A gateway without listeners for programs.
    #[error(
        "there is no listener for programs: give --socks, --connect, --forward or --transparent"
    )]
    NoListener,
    /// A listener for programs that fails.
    #[error("cannot accept connections of programs: {0}")]
    Accept(io::Error),
    /// An address on which a service cannot listen.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Address of the listener.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// A listener at the shared address alone, where it could take the address of a connection.
    #[error(
        "--cluster-address {0}: a listener must listen on all addresses; write it as --socks 0.0.0.0:1080"
    )]
    OnlyShared(Ipv4Addr),
    /// Connections that cannot be captured.
    #[error("--transparent: {0}")]
    Capture(KernelError),
    /// Settings of a cluster that cannot be used.
    #[error("--cluster: {0}")]
    ClusterSettings(SettingsError),
    /// A cluster that cannot be joined.
    #[error("{option}: {0}", option = option(.0))]
    Cluster(ClusterError),
    /// A peer without a name.
    #[error("--peer needs a host")]
    NoPeer,
    /// A gateway that cannot start.
    #[error("cannot start the gateway: {0}")]
    Start(io::Error),
    /// A malformed filter of the log.
    #[error("{name}={value} is malformed: {why}")]
    LogFilter {
        /// Name of the variable.
        name: &'static str,
        /// Value of the variable.
        value: String,
        /// Fault of the value.
        why: String,
    },
    /// A log that cannot be started.
    #[error("cannot start the log: {0}")]
    Log(String),
    /// Traces or metrics that cannot be sent.
    #[cfg(feature = "otel")]
    #[error("cannot send telemetry to {endpoint}: {why}")]
    Telemetry {
        /// Name of the variable with the address.
        endpoint: &'static str,
        /// Fault of the exporter.
        why: String,
    },
    /// An address at which metrics cannot be served.
    #[error("cannot serve metrics at {address}: {error}")]
    Metrics {
        /// Address.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::NoListener
            | Self::OnlyShared(_)
            | Self::ClusterSettings(_)
            | Self::NoPeer
            | Self::NoLink(_)
            | Self::WideLink { .. }
            | Self::OpenLink(_)
            | Self::LogFilter { .. }
            | Self::Log(_) => Code::Usage,
            Self::PathLost(_) => Code::Refused,
            #[cfg(feature = "otel")]
            Self::Telemetry { .. } => Code::Usage,
            Self::Domain(why) => of_domain(why),
            Self::Control(why) => control_code::code(why),
            Self::Accept(_) | Self::Listen { .. } | Self::Start(_) | Self::Metrics { .. } => {
                Code::Network
            }
            Self::Capture(why) => of_kernel(why),
            Self::Cluster(ClusterError::Listen(..)) => Code::Network,
            Self::Cluster(ClusterError::Address(why)) => of_kernel(why),
        }
    }
}

/// Returns the option that a fault of a cluster is about.
fn option(error: &ClusterError) -> &'static str {
    match error {
        ClusterError::Listen(..) => "--cluster",
        ClusterError::Address(_) => "--cluster-address",
    }
}

/// Returns the exit status for rules and addresses of the kernel. Only a misuse depends on options
/// alone.
const fn of_kernel(error: &KernelError) -> Code {
    match error {
        KernelError::Misuse(_) => Code::Usage,
        KernelError::NoTool { .. }
        | KernelError::NotPermitted(_)
        | KernelError::Occupied(_)
        | KernelError::Tool { .. }
        | KernelError::World { .. } => Code::Permission,
    }
}

const fn of_domain(why: &DomainError) -> Code {
    match why {
        DomainError::ReadConfig { .. } => Code::Open,
        DomainError::Config { .. }
        | DomainError::Transport(TransportError::OwnKey(_))
        | DomainError::Device { .. }
        | DomainError::NoInterface { .. }
        | DomainError::MissingDevices(_) => Code::Usage,
        DomainError::Key { .. } => Code::Permission,
        DomainError::Transport(TransportError::Listen { .. }) => Code::Network,
        DomainError::Store(_)
        | DomainError::Transport(TransportError::Resources(_))
        | DomainError::Resources(_)
        | DomainError::ClockStep { .. }
        | DomainError::ClockBeyond { .. }
        | DomainError::DevicesBehind(_) => Code::Io,
        DomainError::Internal(_) => Code::Internal,
        DomainError::Stopped | DomainError::NoOutcome(_) => Code::Stopping,
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_capture::kernel::error::{Misuse, Task};

    use super::*;

    #[test]
    fn misuse_of_the_kernel_is_a_usage_error_for_each_option() {
        let misuse = || KernelError::from(Misuse::NothingSelected);
        let refused = || KernelError::NotPermitted(Task::Capture);
        for (fault, code) in [
            (Fault::Capture(misuse()), Code::Usage),
            (Fault::Cluster(ClusterError::Address(misuse())), Code::Usage),
            (Fault::Capture(refused()), Code::Permission),
            (
                Fault::Cluster(ClusterError::Address(refused())),
                Code::Permission,
            ),
        ] {
            assert_eq!(fault.code(), code, "{fault}");
        }
    }
}
