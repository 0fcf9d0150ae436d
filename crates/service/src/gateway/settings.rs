//! Settings of a gateway: its sessions, its listeners and its links.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_capture::credentials::Credentials;
use lighthaul_capture::settings::Transparent;
use lighthaul_capture::target::Target;
use lighthaul_daemon::settings as daemon;
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_gateway::{cluster, settings as gateway};
use lighthaul_remote::daemon::Daemon;
use lighthaul_remote::scheduler::Scheduler;

/// Settings of a gateway with its links, listeners and other services.
#[derive(Debug)]
pub struct Settings {
    /// Sessions and links.
    pub links: gateway::Settings,
    /// Other gateway to call, and the programs whose sessions use it.
    pub peer: Option<Peer>,
    /// Server for other gateways that call.
    pub server: Option<daemon::Settings>,
    /// Address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Path of the status socket.
    pub status_socket: PathBuf,
}

/// Other gateway, with the paths to it and the listeners for programs.
#[derive(Debug)]
pub struct Peer {
    /// Addresses of that gateway, each HOST or HOST:PORT.
    pub addresses: Vec<String>,
    /// Neighbor gateways, which offer alternative paths to the other gateway.
    pub via: Vec<ProxyAddress>,
    /// Identity of the other gateway, and credentials for it.
    pub daemon: Daemon,
    /// True if datagrams of the link may be unencrypted.
    pub plain: bool,
    /// Listeners for programs.
    pub listeners: Listeners,
    /// True if sessions for some targets do not cross the link.
    pub is_bypassed: bool,
    /// Reservations of the channel.
    pub booked: Option<Booked>,
    /// Cluster whose gateways share the channel.
    pub cluster: Option<cluster::Settings>,
}

/// Listeners for programs.
#[derive(Debug)]
pub struct Listeners {
    /// Addresses of SOCKS5.
    pub socks: Vec<SocketAddr>,
    /// Addresses of HTTP CONNECT.
    pub connect: Vec<SocketAddr>,
    /// Addresses to listen on, each with the target of its connections.
    pub forward: Vec<(SocketAddr, Target)>,
    /// Credentials of programs, for SOCKS5 and HTTP CONNECT.
    pub credentials: Option<Credentials>,
    /// Connections that the kernel redirects.
    pub transparent: Option<Transparent>,
    /// Maximum number of sessions at a time.
    pub sessions: usize,
    /// Silence after which a program's host is probed.
    pub keepalive: Duration,
}

/// Reservations of the channel to the other gateway.
#[derive(Debug)]
pub struct Booked {
    /// Scheduler to ask.
    pub scheduler: Scheduler,
    /// Name of this gateway in the topology.
    pub from: Option<String>,
    /// Name of the other gateway in the topology.
    pub to: Option<String>,
    /// Maximum rate of a reservation.
    pub rate_max: Option<Rate>,
}

impl Peer {
    /// Returns the address that all gateways of the cluster share.
    pub fn shared_address(&self) -> Option<Ipv4Addr> {
        self.cluster.as_ref()?.address
    }
}
