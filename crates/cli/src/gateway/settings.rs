//! Settings of a gateway: what it carries, for whom, and how it reaches the other one.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_daemon::settings as daemon;
use lighthaul_gateway::capture::credentials::Credentials;
use lighthaul_gateway::capture::settings::Transparent;
use lighthaul_gateway::entrance::Entrance;
use lighthaul_gateway::target::Target;
use lighthaul_gateway::{cluster, settings as gateway};
use lighthaul_remote::daemon::Daemon;
use lighthaul_remote::scheduler::Scheduler;

/// Settings of a gateway with its links, listeners and other services.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Sessions and links.
    pub(crate) links: gateway::Settings,
    /// Other gateway to call, and the programs whose sessions go there.
    pub(crate) peer: Option<Peer>,
    /// Server for other gateways that call.
    pub(crate) server: Option<daemon::Settings>,
    /// Address of the metrics.
    pub(crate) metrics: Option<SocketAddr>,
    /// Path of the status socket.
    pub(crate) status_socket: PathBuf,
}

/// Other gateway, with the ways to it and the programs whose sessions go there.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its addresses, each HOST or HOST:PORT.
    pub(crate) addresses: Vec<String>,
    /// Gateways beside this one, through which it is also reached.
    pub(crate) via: Vec<Entrance>,
    /// Its identity, and credentials for it.
    pub(crate) daemon: Daemon,
    /// True if datagrams of the link may be unencrypted.
    pub(crate) plain: bool,
    /// Listeners for programs.
    pub(crate) listeners: Listeners,
    /// True if sessions for some targets do not cross the link.
    pub(crate) is_bypassed: bool,
    /// Reservations of the channel.
    pub(crate) booked: Option<Booked>,
    /// Cluster whose gateways share the channel.
    pub(crate) cluster: Option<cluster::Settings>,
}

/// Listeners for programs.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// Addresses of SOCKS5.
    pub(crate) socks: Vec<SocketAddr>,
    /// Addresses of HTTP CONNECT.
    pub(crate) connect: Vec<SocketAddr>,
    /// Addresses whose connections go to one target each.
    pub(crate) forward: Vec<(SocketAddr, Target)>,
    /// Credentials of programs, for SOCKS5 and HTTP CONNECT.
    pub(crate) credentials: Option<Credentials>,
    /// Connections that the kernel hands over.
    pub(crate) transparent: Option<Transparent>,
    /// Maximum number of sessions at a time.
    pub(crate) sessions: usize,
    /// Silence after which a program's host is probed.
    pub(crate) keepalive: Duration,
}

/// Reservations of the channel to the other gateway.
#[derive(Debug)]
pub(crate) struct Booked {
    /// Scheduler to ask.
    pub(crate) scheduler: Scheduler,
    /// Name of this gateway in the topology.
    pub(crate) from: Option<String>,
    /// Name of the other gateway in the topology.
    pub(crate) to: Option<String>,
    /// Maximum rate of a reservation.
    pub(crate) rate_max: Option<Rate>,
}

impl Peer {
    /// Returns the address that all gateways of the cluster share.
    pub(crate) fn shared_address(&self) -> Option<Ipv4Addr> {
        self.cluster.as_ref()?.address
    }
}
