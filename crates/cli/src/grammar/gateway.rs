//! The grammar of `lighthaul gateway`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use lighthaul_base::{Rate, Size, duration};
use lighthaul_gateway::allowed::Rule;
use lighthaul_gateway::entrance::Entrance;
use lighthaul_gateway::ports::Ports;
use lighthaul_gateway::prefix::Prefix;

use crate::grammar::booking::At;
use crate::grammar::output::LogFormat;
use crate::grammar::reach::Far;
use crate::grammar::secret::Secret;

/// Carry connections of unmodified programs over a long path, to and from another gateway
///
/// The gateway near the programs takes them in (--socks, --connect, --forward, --transparent) and is told of the other one
/// (--peer). The gateway near their targets listens (--listen) and is told where it may go (--allow). One may be both.
/// Each connection ends at its gateway, so that it never feels the long path; between the two its bytes cross in
/// slabs, at the rate of the channel (--rate), which should be theirs alone.
///
/// A first SIGINT or SIGTERM lets nobody in any more and waits for the sessions that there are, --patience at most; a
/// second one ends them.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_long_help = GATEWAYS)]
pub(crate) struct Gateway {
    /// What to do instead of carrying
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    /// Where other gateways may call, for TCP and UDP alike, as in `[::]:4810` [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// The gateway that sessions go to, as in gateway.example.org or 192.0.2.1:4810; further addresses of it, in case that path is
    /// down
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) peer: Vec<String>,
    /// Gateways beside this one, where they take SOCKS5, as in 10.0.0.2:1080: while the peer can't be reached from here, sessions
    /// go on through one of them and its own link; the peer must --allow its own address
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        requires = "peer",
        value_parser = Secret::<Entrance>::new(),
        hide_env_values = true
    )]
    pub(crate) via: Vec<Entrance>,
    /// Where programs may speak SOCKS5, as in 127.0.0.1:1080
    #[arg(long, value_name = "ADDR")]
    pub(crate) socks: Vec<SocketAddr>,
    /// Where programs may speak HTTP CONNECT, as in 127.0.0.1:3128
    #[arg(long, value_name = "ADDR")]
    pub(crate) connect: Vec<SocketAddr>,
    /// The file with the name and password, NAME:PASSWORD, that programs must give there
    #[arg(long, value_name = "FILE")]
    pub(crate) credentials: Option<PathBuf>,
    /// A place here that leads to a target there, as in 127.0.0.1:8080=web.example.org:80
    #[arg(long, value_name = "ADDR=TARGET")]
    pub(crate) forward: Vec<String>,
    #[command(flatten)]
    pub(crate) capture: Capture,
    /// Where sessions from other gateways may go, as in 10.0.0.0/8:5001, *.example.org:443 or host:1000-2000; nowhere else
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub(crate) allow: Vec<Rule>,
    /// Targets near this gateway, as rules like those: programs that want to go there are connected from here, and nothing crosses
    /// the path; names count only where they are listed by name
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub(crate) direct: Vec<Rule>,
    /// What the channel to the other gateway carries, headers included, as in 1Gb/s [default: as measured at the start]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,
    #[command(flatten)]
    pub(crate) booked: Booked,
    /// Memory for all links of one key, in and out; each takes half of what the others leave
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    pub(crate) memory: Size,
    /// The largest slab
    #[arg(long, value_name = "SIZE", default_value = "8MiB")]
    pub(crate) slab: Size,
    /// How long bytes wait for a slab to fill while the channel is idle
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = duration::parse)]
    pub(crate) age: Duration,
    /// How long sessions outlive a connection between gateways that is gone, and may go on when the gateway is stopped
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = duration::parse)]
    pub(crate) patience: Duration,
    /// How long a program or target may be silent before its host is asked whether it is still there
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub(crate) keepalive: Duration,
    /// Most sessions of one link, and of all links of one key; at most three sixteenths of the files that may be open
    #[arg(long, value_name = "COUNT", default_value_t = 65_536)]
    pub(crate) sessions: usize,
    #[command(flatten)]
    pub(crate) links: Links,
    /// Do not encrypt pages between gateways; both must say so
    #[arg(long)]
    pub(crate) plain: bool,
    /// The file that lists the keys of gateways that may call
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_ALLOWED")]
    pub(crate) allowed: Option<PathBuf>,
    /// Where Prometheus may ask for /metrics over HTTP, as in 127.0.0.1:9481 [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// The socket where `lighthaul gateway status` asks [default: gateway.sock in /run/lighthaul, or in the user's own folder there]
    #[arg(long, value_name = "PATH")]
    pub(crate) status_socket: Option<PathBuf>,
    /// How the log on standard error is written; `LIGHTHAUL_LOG` says how much, as in `debug`
    #[arg(long, value_enum, default_value_t, env = "LIGHTHAUL_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) together: Together,
    #[command(flatten)]
    pub(crate) far: Far,
}

/// How many links other gateways may have here.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Limits")]
pub(crate) struct Links {
    /// Most links from other gateways
    #[arg(
        id = "links",
        long = "links",
        value_name = "COUNT",
        default_value_t = 256
    )]
    pub(crate) all: usize,
    /// Most links from gateways with one key
    #[arg(
        id = "links_per_key",
        long = "links-per-key",
        value_name = "COUNT",
        default_value_t = 8
    )]
    pub(crate) per_key: usize,
    /// Most links from one address (IPv6: one /64)
    #[arg(
        id = "links_per_address",
        long = "links-per-address",
        value_name = "COUNT",
        default_value_t = 128
    )]
    pub(crate) per_address: usize,
}

/// Connections that are taken in on their way to somebody else.
#[derive(Args, Clone, Debug)]
pub(crate) struct Capture {
    /// Take in connections that other hosts send through this one, or programs here (--capture-user), to whomever; takes root, nft
    /// and ip
    #[arg(long)]
    pub(crate) transparent: bool,
    /// Of these, only those to such ports, as in 5001 or 2811-2820
    #[arg(
        long = "capture-ports",
        value_name = "PORTS",
        requires = "transparent",
        value_delimiter = ','
    )]
    pub(crate) ports: Vec<Ports>,
    /// Of these, only those to such addresses, as in 203.0.113.0/24
    #[arg(
        long = "capture-to",
        value_name = "PREFIX",
        requires = "transparent",
        value_delimiter = ','
    )]
    pub(crate) to: Vec<Prefix>,
    /// Of these, only those that arrive at this interface
    #[arg(
        long = "capture-device",
        value_name = "DEVICE",
        requires = "transparent"
    )]
    pub(crate) device: Option<String>,
    /// Those of programs on this host that run as this user, by number; of other hosts then only with --capture-device
    #[arg(
        long = "capture-user",
        value_name = "UID",
        requires = "transparent",
        value_delimiter = ','
    )]
    pub(crate) user: Vec<u32>,
}

/// What can be done with a gateway that runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Status(Status),
}

/// Show a gateway's links: sessions, bytes, slabs, credit, memory and rates
#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The gateway's socket, if it is not at its usual place
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Look once, not every second
    #[arg(long)]
    pub(crate) once: bool,
}

const GATEWAYS: &str = "Examples:
  lighthaul gateway --listen [::]:4810 --allow 10.1.0.0/16:*
  lighthaul gateway --peer gateway.example.org --socks 127.0.0.1:1080 --rate 5Gb/s
  lighthaul gateway --peer gateway.example.org --transparent --capture-device eth1 --capture-ports 5001
  lighthaul gateway status";

/// Whether windows are booked, and of whom.
#[derive(Args, Clone, Debug)]
pub(crate) struct Booked {
    /// Book windows of the channel as programs need them, of at most --rate, rather than have it always; what is not needed is
    /// given back
    #[arg(long, requires_all = ["peer", "node", "far_node"])]
    pub(crate) book: bool,
    #[command(flatten)]
    pub(crate) at: At,
    /// The file with the token that the scheduler knows us by; or the token itself in `LIGHTHAUL_SCHEDULER_TOKEN`
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_SCHEDULER_TOKEN_FILE")]
    pub(crate) scheduler_token: Option<PathBuf>,
    /// What the scheduler calls this gateway
    #[arg(long, value_name = "HOST", env = "LIGHTHAUL_NODE")]
    pub(crate) node: Option<String>,
    /// What it calls the other one
    #[arg(long, value_name = "HOST")]
    pub(crate) far_node: Option<String>,
}

/// Gateways that share one channel, each with its whole rate for a part of the time.
#[derive(Args, Clone, Debug)]
pub(crate) struct Together {
    /// Where each gateway of a cluster listens for the others, by UDP, as in 10.0.0.1:4811,10.0.0.2:4811; the same list for all of
    /// them, which share the channel of --rate by turns
    #[arg(
        long,
        value_name = "ADDR",
        value_delimiter = ',',
        requires_all = ["peer", "rate", "cluster_listen", "cluster_key"]
    )]
    pub(crate) cluster: Vec<SocketAddr>,
    /// Which of these addresses is this gateway's
    #[arg(long, value_name = "ADDR", requires = "cluster")]
    pub(crate) cluster_listen: Option<SocketAddr>,
    /// The file with the secret that the gateways of a cluster share, at least 16 octets
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub(crate) cluster_key: Option<PathBuf>,
    /// An address of IPv4, in the network of those of --cluster, that all its gateways take and programs find them at, as in
    /// 10.0.0.100: connections are spread over those that live, through doors that listen everywhere, as in --socks 0.0.0.0:1080;
    /// takes root, nft and ip
    #[arg(long, value_name = "ADDR", requires = "cluster")]
    pub(crate) cluster_address: Option<Ipv4Addr>,
}
