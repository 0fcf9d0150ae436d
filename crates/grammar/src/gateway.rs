//! The grammar of `lighthaul gateway` and of its action `status`.
//!
//! Options stand in groups of their own types: capture, booked channel, cluster and limits of
//! links. Combinations that can never work are refused here; all that depends on the host is
//! checked by the service.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use lighthaul_base::prefix::Prefix;
use lighthaul_base::{Rate, Size, duration};
use lighthaul_capture::ports::Ports;
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_gateway::target_rules::TargetRule;

use crate::booking::SchedulerArgs;
use crate::output::{LogArgs, OutputArgs};
use crate::reach::DaemonArgs;
use crate::secret::Secret;

/// Carry TCP connections of unmodified programs over a long path
///
/// The gateway near the programs accepts their connections (--socks, --connect, --forward, --transparent) and connects
/// to the other gateway (--peer). The gateway near the targets listens (--listen) and connects to permitted targets
/// (--allow). One gateway may do both. Each connection ends at its gateway, so that the delay of the long path does not
/// slow it. Between the gateways its bytes cross in slabs, at the rate of the channel (--rate), which should carry
/// nothing else.
///
/// The first SIGINT or SIGTERM stops new sessions and waits for the running ones, for --patience at most; the second
/// ends them.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_help_heading = "Commands",
    after_long_help = GATEWAYS
)]
// fields: one for each option of the command
pub struct Gateway {
    /// Action on a running gateway
    #[command(subcommand)]
    pub action: Option<Action>,
    /// Accept SOCKS5, as in 127.0.0.1:1080
    #[arg(long, value_name = "ADDR", help_heading = "Programs")]
    pub socks: Vec<SocketAddr>,
    /// Accept HTTP CONNECT, as in 127.0.0.1:3128
    #[arg(long, value_name = "ADDR", help_heading = "Programs")]
    pub connect: Vec<SocketAddr>,
    /// Forward a port, as in 127.0.0.1:8080=web.example:80
    #[arg(long, value_name = "ADDR=TARGET", help_heading = "Programs")]
    pub forward: Vec<String>,
    /// File with NAME:PASSWORD for SOCKS5 and HTTP CONNECT
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Programs",
        hide_short_help = true
    )]
    pub credentials: Option<PathBuf>,
    #[command(flatten)]
    pub capture: CaptureArgs,
    /// Connect to these targets directly, not through the peer
    ///
    /// Rules have the form of --allow. A rule with a name applies only to targets that are given by that name.
    #[arg(
        long,
        value_name = "RULE",
        value_delimiter = ',',
        help_heading = "Programs",
        hide_short_help = true
    )]
    pub direct: Vec<TargetRule>,
    /// Connect to this gateway, as in gateway.example.org:4810
    ///
    /// Further addresses of the same gateway are used when the first path fails.
    #[arg(
        long,
        value_name = "HOST",
        value_delimiter = ',',
        help_heading = "Network"
    )]
    pub peer: Vec<String>,
    /// Listen for other gateways, as in `[::]:4810`
    #[arg(long, value_name = "ADDR", help_heading = "Network")]
    pub listen: Option<SocketAddr>,
    /// Permit targets, as in 10.0.0.0/8:5001 or *.a.org:443
    ///
    /// A rule may have a range of ports, as in host:1000-2000. No other targets are permitted.
    #[arg(
        long,
        value_name = "RULE",
        value_delimiter = ',',
        help_heading = "Network"
    )]
    pub allow: Vec<TargetRule>,
    /// Rate of the channel, headers included [default: measured]
    #[arg(long, value_name = "RATE", help_heading = "Network")]
    pub rate: Option<Rate>,
    /// Do not encrypt data between gateways; both must agree
    #[arg(long, help_heading = "Network", hide_short_help = true)]
    pub plain: bool,
    /// List of keys of gateways that may connect [default: `allowed_keys`]
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_ALLOWED",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub allowed: Option<PathBuf>,
    /// Alternative gateways to the peer, as in 10.0.0.2:1080
    ///
    /// If the direct path to the peer fails, sessions use one of these gateways, which accept SOCKS5 at these
    /// addresses. The --allow list of the peer must contain the peer's own address.
    #[arg(
        long,
        value_name = "ADDR",
        value_delimiter = ',',
        requires = "peer",
        value_parser = Secret::<ProxyAddress>::new(),
        hide_env_values = true,
        help_heading = "Network",
        hide_short_help = true
    )]
    pub via: Vec<ProxyAddress>,
    #[command(flatten)]
    pub far: DaemonArgs,
    #[command(flatten)]
    pub booked: ChannelArgs,
    #[command(flatten)]
    pub together: ClusterArgs,
    /// Memory for all links of one key
    ///
    /// Each direction of a link may use at most half of the memory that is still free.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "2GiB",
        help_heading = "Limits"
    )]
    pub memory: Size,
    /// Memory for all links from other gateways
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "8GiB",
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub max_memory: Size,
    /// Reset sessions after this long without a link
    ///
    /// A gateway that stops also waits this long for its sessions.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse, help_heading = "Limits")]
    pub patience: Duration,
    /// Maximum sessions per link, per key, and of all programs
    ///
    /// The limit is at most 3/16 of the limit of open files. Programs at one address get at most 75 % of all program
    /// sessions.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 65_536,
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub sessions: usize,
    #[command(flatten)]
    pub links: LinkArgs,
    /// Maximum size of a slab
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "8MiB",
        help_heading = "Advanced",
        hide_short_help = true
    )]
    pub slab: Size,
    /// Maximum wait for a slab to fill while the channel is idle
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = duration::parse, help_heading = "Advanced", hide_short_help = true)]
    pub age: Duration,
    /// Idle time of a program or target before TCP keepalive probes
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse, help_heading = "Advanced", hide_short_help = true)]
    pub keepalive: Duration,
    /// Serve Prometheus metrics, as on 127.0.0.1:9481
    #[arg(long, value_name = "ADDR", help_heading = "Output")]
    pub metrics_listen: Option<SocketAddr>,
    /// Socket for `gateway status` [default: gateway.sock]
    ///
    /// Its directory is /run/lighthaul for root, and `XDG_RUNTIME_DIR` for other users.
    #[arg(
        long,
        value_name = "PATH",
        help_heading = "Output",
        hide_short_help = true
    )]
    pub status_socket: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Limits on links from other gateways.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Limits")]
pub struct LinkArgs {
    /// Maximum links from other gateways
    #[arg(
        id = "links",
        long = "links",
        value_name = "N",
        default_value_t = 256,
        hide_short_help = true
    )]
    pub all: usize,
    /// Maximum links per key
    #[arg(
        id = "links_per_key",
        long = "links-per-key",
        value_name = "N",
        default_value_t = 8,
        hide_short_help = true
    )]
    pub per_key: usize,
    /// Maximum links per address (IPv6: /64)
    #[arg(
        id = "links_per_address",
        long = "links-per-address",
        value_name = "N",
        default_value_t = 128,
        hide_short_help = true
    )]
    pub per_address: usize,
}

/// Transparent capture of connections.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Programs")]
pub struct CaptureArgs {
    /// Capture connections that pass this host (root)
    ///
    /// Requires nft and ip. Captures connections that this host routes for others; --capture-user captures those of
    /// local programs.
    #[arg(long)]
    pub transparent: bool,
    /// Capture only these target ports, as in 5001 or 2811-2820
    #[arg(
        long = "capture-ports",
        value_name = "PORTS",
        requires = "transparent",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub ports: Vec<Ports>,
    /// Capture only these target addresses, as in 203.0.113.0/24
    #[arg(
        long = "capture-to",
        value_name = "PREFIX",
        requires = "transparent",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub to: Vec<Prefix>,
    /// Capture only connections that arrive at this interface
    #[arg(
        long = "capture-device",
        value_name = "DEVICE",
        requires = "transparent",
        hide_short_help = true
    )]
    pub device: Option<String>,
    /// Capture connections of local programs of this user (UID)
    ///
    /// Connections of other hosts are then captured only with --capture-device.
    #[arg(
        long = "capture-user",
        value_name = "UID",
        requires = "transparent",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub user: Vec<u32>,
}

/// Action on a running gateway.
#[derive(Debug, Subcommand)]
pub enum Action {
    Status(Status),
}

/// Show the links of a running gateway every second
///
/// It shows sessions, bytes, slabs, credit, memory and rates.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul gateway status
  lighthaul gateway status --once --json | jq .links")]
pub struct Status {
    /// Status socket of the gateway [default: gateway.sock]
    #[arg(long, value_name = "PATH", help_heading = "Selection")]
    pub socket: Option<PathBuf>,
    /// Show the links once
    #[arg(long, help_heading = "Output")]
    pub once: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

const GATEWAYS: &str = "Examples:
  lighthaul gateway --listen [::]:4810 --allow 10.1.0.0/16:*
  lighthaul gateway --peer gateway.example.org --socks 127.0.0.1:1080 --rate 5Gb/s
  lighthaul gateway --peer gateway.example.org --transparent --capture-device eth1 --capture-ports 5001
  lighthaul gateway status";

/// Reservations for the channel.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Booking")]
pub struct ChannelArgs {
    /// Book the channel on demand, for at most --rate
    ///
    /// Capacity that programs do not need is released.
    #[arg(long, requires_all = ["peer", "node", "far_node"])]
    pub book: bool,
    #[command(flatten)]
    pub at: SchedulerArgs,
    /// Name of this gateway in the topology
    #[arg(
        long,
        value_name = "HOST",
        env = "LIGHTHAUL_NODE",
        hide_short_help = true
    )]
    pub node: Option<String>,
    /// Name of the peer in the topology
    #[arg(long, value_name = "HOST", hide_short_help = true)]
    pub far_node: Option<String>,
}

/// Gateways that share one channel in turn; each has its whole rate for a part of the time.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Addresses of all gateways of a cluster, for UDP
    ///
    /// The list is the same for all of them, as in 10.0.0.1:4811,10.0.0.2:4811. They share the channel of --rate by
    /// turns.
    #[arg(
        long,
        value_name = "ADDR",
        value_delimiter = ',',
        requires_all = ["peer", "rate", "cluster_listen", "cluster_key"]
    )]
    pub cluster: Vec<SocketAddr>,
    /// Address of this gateway in the list
    #[arg(
        long,
        value_name = "ADDR",
        requires = "cluster",
        hide_short_help = true
    )]
    pub cluster_listen: Option<SocketAddr>,
    /// File with the secret of the cluster, at least 16 bytes
    #[arg(
        long,
        value_name = "FILE",
        requires = "cluster",
        hide_short_help = true
    )]
    pub cluster_key: Option<PathBuf>,
    /// Shared IPv4 address of the cluster (needs root, nft, ip)
    ///
    /// The address is in the subnet of the --cluster addresses, as in 10.0.0.100. Programs connect to it, and
    /// connections are spread over the gateways that are alive. The listeners must accept all addresses, as in --socks
    /// 0.0.0.0:1080.
    #[arg(
        long,
        value_name = "ADDR",
        requires = "cluster",
        hide_short_help = true
    )]
    pub cluster_address: Option<Ipv4Addr>,
}
