//! Faults in the configuration of the kernel, with their remedies.
//!
//! [`Error`] says that a task failed: privileges, tools, other gateways or the kernel. [`Misuse`]
//! is the part that no repetition repairs, because the request itself is wrong. [`Task`] and
//! [`Exclusive`] have the words of the messages, so that one fault reads the same everywhere.
//! [`Error::world`] turns "permission denied" of the kernel into the names of the needed
//! capabilities.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// Fault in the configuration of the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request can never succeed.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// A program is not installed.
    #[error("cannot {task}: it needs {tool}, which is not installed here: install {package}")]
    NoTool {
        /// Task of the program.
        task: Task,
        /// Name of the program.
        tool: &'static str,
        /// Package of the program.
        package: &'static str,
    },
    /// The process lacks privileges.
    #[error(
        "cannot {0}: it needs root, or CAP_NET_ADMIN (and CAP_NET_RAW for a cluster's address), in this network namespace"
    )]
    NotPermitted(Task),
    /// Another gateway on this host holds the exclusive task.
    #[error("another gateway {0} on this host already: stop that gateway first")]
    Occupied(Exclusive),
    /// A program failed.
    #[error("cannot {task}: {tool} failed: {why}")]
    Tool {
        /// Task of the program.
        task: Task,
        /// Name of the program.
        tool: &'static str,
        /// Standard error of the program.
        why: String,
    },
    /// A call of the kernel failed.
    #[error("cannot {task}: {source}")]
    World {
        /// Task of the call.
        task: Task,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// Request that can never succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// The capture selects neither arriving connections nor users.
    #[error("nothing is selected for capture: select arriving connections, or users of this host")]
    NothingSelected,
    /// The name of the interface is invalid.
    #[error("{0:?} is not the name of an interface: `ip link` lists them")]
    Device(String),
    /// The capture includes the user of the gateway itself.
    #[error(
        "the gateway runs as user {0}, and would capture its own connections: run it as another user"
    )]
    OwnUser(u32),
    /// The mark or the routing table is reserved.
    #[error("the mark cannot be 0, and the table cannot be one of the system (0, 253 to 255)")]
    Reserved,
    /// The address belongs to another host.
    #[error("{0} is not an address of this host: `ip addr` lists them")]
    NotLocal(Ipv4Addr),
    /// The interface is not on an Ethernet.
    #[error(
        "{own} is at {device}, which has no network with other hosts: use the elements' own addresses there"
    )]
    NoNetwork {
        /// Address of this element.
        own: Ipv4Addr,
        /// Name of the interface.
        device: String,
    },
    /// An address is in another network.
    #[error("{other} is not in the network of {own} at {device}")]
    OtherNetwork {
        /// Address in another network.
        other: Ipv4Addr,
        /// Address of this element.
        own: Ipv4Addr,
        /// Name of the interface.
        device: String,
    },
    /// The shared address is also that of an element.
    #[error(
        "{0} is the own address of an element, and cannot be shared: give --cluster-address another address of the network"
    )]
    ElementAddress(Ipv4Addr),
    /// Two elements have one address.
    #[error("{0} is the address of two elements: each needs its own host")]
    TwoElements(Ipv4Addr),
    /// An element has no IPv4 address.
    #[error("{0} is an IPv6 address: elements can share an IPv4 address only")]
    NotIpv4(IpAddr),
}

/// Task in the configuration of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Task {
    /// Open listeners for redirected connections.
    #[error("listen for redirected connections")]
    Listen,
    /// Install the rules of the capture.
    #[error("capture connections")]
    Capture,
    /// Route captured packets to this host.
    #[error("route captured packets to this host")]
    RouteCaptured,
    /// Remove the rules of the capture.
    #[error("remove the rules of the capture")]
    RemoveCapture,
    /// Install the rules of the shared address.
    #[error("distribute connections over a cluster")]
    Distribute,
    /// Add the shared address.
    #[error("take the address of a cluster")]
    TakeAddress,
    /// Remove the shared address.
    #[error("release the address of a cluster")]
    ReleaseAddress,
    /// Check the rules of the shared address.
    #[error("check the rules of the shared address")]
    CheckRules,
    /// Answer ARP requests for the shared address.
    #[error("answer for the address of a cluster")]
    AnswerArp,
    /// List the addresses of this host.
    #[error("list the addresses of this host")]
    ListAddresses,
    /// Take the lock against other gateways.
    #[error("take the lock against other gateways")]
    Lock,
    /// Create an event descriptor.
    #[error("create an event descriptor")]
    Event,
    /// Start a thread.
    #[error("start a thread")]
    Thread,
}

/// Task that only one gateway in a network namespace can do at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exclusive {
    /// Capture of connections.
    #[error("captures connections")]
    Capture,
    /// Shared address of a cluster.
    #[error("has the address of a cluster")]
    Address,
}

impl Error {
    /// Returns the conversion of an error of the kernel, for `map_err`.
    pub fn world(task: Task) -> impl Fn(io::Error) -> Self {
        move |source| {
            if source.kind() == io::ErrorKind::PermissionDenied {
                Self::NotPermitted(task)
            } else {
                Self::World { task, source }
            }
        }
    }
}
