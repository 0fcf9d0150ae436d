//! The grammar of `lighthaul serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use lighthaul_base::{PortRange, Size, duration};

use crate::output::LogArgs;
use crate::reach::KeyArgs;

/// Serve a directory to clients that copy to and from this host
///
/// Clients are admitted by their keys (`lighthaul allow`), by tokens (`lighthaul token`) or by statements of an
/// authority (`lighthaul sign`).
#[derive(Args, Debug)]
#[command(after_long_help = SERVICES)]
// fields: one for each option
pub struct Serve {
    /// Directory to serve, required; / serves the whole host
    #[arg(
        long,
        value_name = "DIR",
        env = "LIGHTHAUL_ROOT",
        help_heading = "Access"
    )]
    pub root: Option<PathBuf>,
    /// Serve an object store as a directory, as in data=s3://BUCKET
    ///
    /// Clients copy to `lh://HOST/NAME/KEY`. The store gets the parts of each object while they arrive. May be given several
    /// times.
    #[arg(
        long,
        value_name = "NAME=URL",
        help_heading = "Access",
        hide_short_help = true
    )]
    pub store: Vec<String>,
    /// Directory for data on the way to a store [default: /var/tmp]
    ///
    /// It has the data of which parts are not complete.
    #[arg(
        long,
        value_name = "DIR",
        env = "LIGHTHAUL_SPOOL",
        help_heading = "Access",
        hide_short_help = true,
        requires = "store"
    )]
    pub spool: Option<PathBuf>,
    /// Maximum space for data on the way to stores
    ///
    /// Copies wait while it is full. Each lane of a copy may need up to 1 GiB on a path that loses packets.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "16GiB",
        env = "LIGHTHAUL_SPOOL_MAX",
        help_heading = "Access",
        hide_short_help = true,
        requires = "store"
    )]
    pub spool_max: Size,
    /// Time for which a store keeps the parts of an interrupted upload
    ///
    /// A copy of the same file within this time continues with these parts. The daemon then gives them up. 0 gives them up at
    /// once, and when the daemon is stopped.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1d",
        env = "LIGHTHAUL_UPLOAD_KEEP",
        value_parser = duration::parse,
        help_heading = "Access",
        hide_short_help = true,
        requires = "store"
    )]
    pub upload_keep: Duration,
    /// List of keys that may connect [default: `allowed_keys`]
    ///
    /// The list is in `/etc/lighthaul`, or in `~/.config/lighthaul` unless root. `lighthaul allow` writes it.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_ALLOWED",
        help_heading = "Access"
    )]
    pub allowed: Option<PathBuf>,
    /// List of tokens that may connect [default: `tokens`]
    ///
    /// The list is beside `allowed_keys`. `lighthaul token` writes it.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_TOKENS",
        help_heading = "Access"
    )]
    pub tokens: Option<PathBuf>,
    /// Do not send files to other daemons on behalf of clients
    #[arg(long, env = "LIGHTHAUL_NO_RELAY", help_heading = "Access")]
    pub no_relay: bool,
    /// Address to listen on
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "[::]:4810",
        env = "LIGHTHAUL_LISTEN",
        help_heading = "Network"
    )]
    pub listen: String,
    /// Range of ports to choose from if --listen has port 0, as in 5000-5009
    #[arg(
        long,
        value_name = "FROM-TO",
        env = "LIGHTHAUL_PORT_RANGE",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub port_range: Option<PortRange>,
    /// Allow unencrypted data packets on request
    #[arg(long, env = "LIGHTHAUL_PLAIN", help_heading = "Network")]
    pub plain: bool,
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub limits: ServeLimits,
    /// Serve one session for the key on standard input (started by ssh)
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    pub once: bool,
    /// Serve Prometheus metrics, as on 127.0.0.1:9481
    ///
    /// Without it, no metrics are served.
    #[arg(
        long,
        value_name = "ADDR",
        env = "LIGHTHAUL_METRICS_LISTEN",
        help_heading = "Output"
    )]
    pub metrics_listen: Option<SocketAddr>,
    #[command(flatten)]
    pub log: LogArgs,
}

const SERVICES: &str = "Examples:
  lighthaul serve --root /data
  lighthaul serve --root /data --store archive=s3://bucket/prefix
  lighthaul serve --root /data --metrics-listen 127.0.0.1:9481 --max-memory 16GiB";

/// Limits on the resources of this host: for all clients together, and for each client.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
// fields: one for each option
pub struct ServeLimits {
    /// Maximum sessions at one time
    #[arg(long, value_name = "N", default_value_t = 256, env = "LIGHTHAUL_MAX_SESSIONS", value_parser = value_parser!(u32).range(1..))]
    pub max_sessions: u32,
    /// Maximum memory for sessions
    ///
    /// One key gets at most half.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4GiB",
        env = "LIGHTHAUL_MAX_MEMORY"
    )]
    pub max_memory: Size,
    /// Maximum sessions per key or token
    #[arg(long, value_name = "N", default_value_t = 64, env = "LIGHTHAUL_MAX_SESSIONS_PER_KEY", hide_short_help = true, value_parser = value_parser!(u32).range(1..))]
    pub max_sessions_per_key: u32,
    /// Maximum sessions of all keys that one authority signed
    #[arg(long, value_name = "N", default_value_t = 192, env = "LIGHTHAUL_MAX_SESSIONS_PER_AUTHORITY", hide_short_help = true, value_parser = value_parser!(u32).range(1..))]
    pub max_sessions_per_authority: u32,
    /// Maximum sessions per address (IPv6: /64)
    #[arg(long, value_name = "N", default_value_t = 192, env = "LIGHTHAUL_MAX_SESSIONS_PER_ADDRESS", hide_short_help = true, value_parser = value_parser!(u32).range(1..))]
    pub max_sessions_per_address: u32,
    /// Maximum sessions per network (IPv4 /24, IPv6 /56 or /48)
    #[arg(long, value_name = "N", default_value_t = 224, env = "LIGHTHAUL_MAX_SESSIONS_PER_NETWORK", hide_short_help = true, value_parser = value_parser!(u32).range(1..))]
    pub max_sessions_per_network: u32,
    /// Additional TCP connections (ptcp) at one time
    #[arg(long, value_name = "N", default_value_t = 2048, env = "LIGHTHAUL_MAX_CONNECTIONS", hide_short_help = true, value_parser = value_parser!(u32).range(1..))]
    pub max_connections: u32,
    /// Additional TCP connections (ptcp) per key or token
    #[arg(long, value_name = "N", default_value_t = 512, env = "LIGHTHAUL_MAX_CONNECTIONS_PER_KEY", hide_short_help = true, value_parser = value_parser!(u32).range(1..))]
    pub max_connections_per_key: u32,
    /// Additional TCP connections (ptcp) of all keys that one authority signed
    #[arg(long, value_name = "N", default_value_t = 1024, env = "LIGHTHAUL_MAX_CONNECTIONS_PER_AUTHORITY", hide_short_help = true, value_parser = value_parser!(u32).range(1..))]
    pub max_connections_per_authority: u32,
    /// Additional TCP connections (ptcp) per address (IPv6: /64)
    #[arg(long, value_name = "N", default_value_t = 1024, env = "LIGHTHAUL_MAX_CONNECTIONS_PER_ADDRESS", hide_short_help = true, value_parser = value_parser!(u32).range(1..))]
    pub max_connections_per_address: u32,
    /// Additional TCP connections (ptcp) per network (IPv4 /24, IPv6 /56 or /48)
    #[arg(long, value_name = "N", default_value_t = 1536, env = "LIGHTHAUL_MAX_CONNECTIONS_PER_NETWORK", hide_short_help = true, value_parser = value_parser!(u32).range(1..))]
    pub max_connections_per_network: u32,
    /// Maximum threads for sessions; one key gets at most half
    #[arg(long, value_name = "N", default_value_t = 8192, env = "LIGHTHAUL_MAX_THREADS", hide_short_help = true, value_parser = value_parser!(u64).range(16..))]
    pub max_threads: u64,
    /// Open files for sessions, one key at most half [default: system limit]
    #[arg(long, value_name = "N", env = "LIGHTHAUL_MAX_OPEN_FILES", hide_short_help = true, value_parser = value_parser!(u64).range(64..))]
    pub max_open_files: Option<u64>,
}
