//! The grammar of `lighthaul gateway`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lighthaul_base::{Rate, Size};
use lighthaul_gateway::allowed::Rule;

use super::cluster::Together;
use crate::args::{Far, LogFormat};

/// Carry connections of unmodified programs over a long path, to and from another gateway
///
/// The gateway near the programs takes them in (--socks, --connect, --forward, --transparent) and is told of the other one
/// (--peer). The gateway near their targets listens (--listen) and is told where it may go (--allow). One may be both.
/// Each connection ends at its gateway, so that it never feels the long path; between the two its bytes cross in
/// slabs, at the rate of the channel (--rate), which should be theirs alone.
#[derive(Args, Debug)]
pub(crate) struct Gateway {
    /// Where other gateways may call, for TCP and UDP alike, as in [::]:4810 [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// The gateway that sessions go to, as in gateway.example.org or 192.0.2.1:4810; further addresses of it, in case that path is
    /// down
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) peer: Vec<String>,
    /// Where programs may speak SOCKS5, as in 127.0.0.1:1080
    #[arg(long, value_name = "ADDR", requires = "peer")]
    pub(crate) socks: Vec<SocketAddr>,
    /// Where programs may speak HTTP CONNECT, as in 127.0.0.1:3128
    #[arg(long, value_name = "ADDR", requires = "peer")]
    pub(crate) connect: Vec<SocketAddr>,
    /// The file with the name and password, NAME:PASSWORD, that programs must give there
    #[arg(long, value_name = "FILE")]
    pub(crate) credentials: Option<PathBuf>,
    /// A place here that leads to a target there, as in 127.0.0.1:8080=web.example.org:80
    #[arg(long, value_name = "ADDR=TARGET", requires = "peer")]
    pub(crate) forward: Vec<String>,
    /// Where sessions from other gateways may go, as in 10.0.0.0/8:5001, *.example.org:443 or host:1000-2000; nowhere else
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub(crate) allow: Vec<Rule>,
    /// What the channel to the other gateway carries, headers included, as in 1Gb/s [default: as measured at the start]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,
    /// Memory for each link, in and out
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) memory: Size,
    /// The largest slab
    #[arg(long, value_name = "SIZE", default_value = "8MiB")]
    pub(crate) slab: Size,
    /// How long bytes wait for a slab to fill while the channel is idle
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = lighthaul_lab::quantity::duration)]
    pub(crate) age: Duration,
    /// How long sessions outlive a connection between gateways that is gone
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = lighthaul_lab::quantity::duration)]
    pub(crate) patience: Duration,
    /// The most sessions of a link at a time
    #[arg(long, value_name = "COUNT", default_value_t = 65_536)]
    pub(crate) sessions: usize,
    /// Do not encrypt pages between gateways; both must say so
    #[arg(long)]
    pub(crate) plain: bool,
    /// The file that lists the keys of gateways that may call
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_ALLOWED")]
    pub(crate) allowed: Option<PathBuf>,
    /// Where Prometheus may ask for /metrics over HTTP, as in 127.0.0.1:9481 [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// How the log on standard error is written; `LIGHTHAUL_LOG` says how much, as in `debug`
    #[arg(long, value_enum, default_value_t, env = "LIGHTHAUL_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) together: Together,
    #[command(flatten)]
    pub(crate) far: Far,
}
