//! The grammar of `lighthaul domains`, the service of one domain, and of `lighthaul path`, which requests paths from
//! it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, value_parser};
use lighthaul_base::Rate;
use lighthaul_booking_client::json::Bytes;

use crate::output::{LogArgs, OutputArgs};
use crate::time::{Time, positive};

/// Show the network domain of this host, or run its service
///
/// A path between two sites often crosses several networks. Each of them is a domain, with a service that talks to the
/// services of its neighbors. Without an action the command shows the domain of this host.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_help_heading = "Commands",
    after_long_help = "Examples:
  lighthaul domains
  lighthaul domains serve --config /etc/lighthaul/domain.toml
  lighthaul domains --json | jq -r '.neighbors[] | select(.connected | not) | .name'"
)]
pub struct Domains {
    /// Action
    #[command(subcommand)]
    pub action: Option<DomainsAction>,
    #[command(flatten)]
    pub status: DomainsStatus,
}

/// Action for a domain.
#[derive(Debug, Subcommand)]
pub enum DomainsAction {
    Serve(DomainsServe),
    Status(DomainsStatus),
}

/// Run the service of a domain
///
/// It connects to the services of the neighbors, keeps all reservations in its store and sets the rates of the devices.
/// The guide describes the configuration. After SIGINT or SIGTERM the devices keep their rates, and the next start
/// continues all paths.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul domains serve --config /etc/lighthaul/domain.toml
  lighthaul domains serve --config campus.toml --socket /run/campus.sock --log-format json")]
pub struct DomainsServe {
    /// Configuration of the domain, as TOML
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_DOMAINS_CONFIG",
        help_heading = "Domain"
    )]
    pub config: PathBuf,
    /// Print the key that neighbors pin, and exit
    ///
    /// The key is generated if it does not exist. The file needs no neighbors yet.
    #[arg(long, help_heading = "Domain")]
    pub show_key: bool,
    #[command(flatten)]
    pub at: SocketArgs,
    #[command(flatten)]
    pub log: LogArgs,
    /// Accept a clock that is days beyond the last run of the service
    ///
    /// Paths that have ended meanwhile by this clock are forgotten. Use it once.
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    pub accept_clock: bool,
}

/// Show a domain, its neighbors and the paths through it
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul domains status
  lighthaul domains status --json | jq .paths")]
pub struct DomainsStatus {
    #[command(flatten)]
    pub at: SocketArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Socket of the service.
#[derive(Args, Clone, Debug)]
pub struct SocketArgs {
    /// Socket of the service [default: this host's domain.sock]
    ///
    /// Only the user of the service and root can use it. Its directory is /run/lighthaul for root, and
    /// `XDG_RUNTIME_DIR` for other users.
    #[arg(
        long,
        value_name = "PATH",
        env = "LIGHTHAUL_DOMAINS_SOCKET",
        help_heading = "Domain"
    )]
    pub socket: Option<PathBuf>,
}

/// Reserve a path to an end point in another domain
///
/// The service of this domain asks all domains for capacity and reserves the path in each of them, or in none. The
/// command waits for the outcome and draws the path. An interrupt before that cancels the request. An end point is
/// DOMAIN:PORT, or a name that the configuration of this domain gives to an end point.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    subcommand_help_heading = "Commands",
    override_usage = "lighthaul path <FROM> <TO> --size <SIZE> [OPTIONS]
       lighthaul path <FROM> <TO> --rate <RATE> --hold <DURATION> [OPTIONS]
       lighthaul path <COMMAND>",
    after_long_help = "Examples:
  lighthaul path chicago amsterdam --size 1.2TB --by 18:00
  lighthaul path 64500:100 64502:103 --rate 10Gb/s --hold 2h --start 2031-05-01T06:00
  lighthaul path chicago amsterdam --size 1.2TB --exclude-domain 64501 --json | jq -r .id
  lighthaul path chicago amsterdam --size 1.2TB --when
  lighthaul path list
  lighthaul path cancel 0c5e"
)]
// fields: one for each option of a request
pub struct Path {
    /// Action on paths
    #[command(subcommand)]
    pub action: Option<PathAction>,
    /// End point in this domain
    #[arg(required = true)]
    pub from: Option<String>,
    /// Other end point
    #[arg(required = true)]
    pub to: Option<String>,
    /// Bytes to move, as in 1.2TB
    #[arg(
        long,
        required_unless_present = "hold",
        conflicts_with = "hold",
        help_heading = "Booking"
    )]
    pub size: Option<Bytes>,
    /// Duration of the path at the rate --rate, as in 2h
    #[arg(long, value_name = "DURATION", requires = "rate", value_parser = positive, help_heading = "Booking")]
    pub hold: Option<Duration>,
    /// Reserve a constant rate
    #[arg(long, value_name = "RATE", conflicts_with_all = ["rate_max", "rate_min"], help_heading = "Booking")]
    pub rate: Option<Rate>,
    /// Highest useful rate [default: capacity of the path]
    #[arg(long, value_name = "RATE", help_heading = "Booking")]
    pub rate_max: Option<Rate>,
    /// Lowest useful rate
    #[arg(
        long,
        value_name = "RATE",
        hide_short_help = true,
        help_heading = "Booking"
    )]
    pub rate_min: Option<Rate>,
    /// Earliest start, as in 18:30 or 2031-05-01T06:00 [default: now]
    ///
    /// Local time, or with a UTC offset. A path starts after all domains have committed it.
    #[arg(long, value_name = "TIME", help_heading = "Booking")]
    pub start: Option<Time>,
    /// Latest end, as in 18:30 [default: 30 days later]
    #[arg(long, value_name = "TIME", help_heading = "Booking")]
    pub by: Option<Time>,
    /// Percent added to the size for headers and retransmissions
    #[arg(long, value_name = "PERCENT", default_value_t = 3, value_parser = value_parser!(u8).range(0..=100), hide_short_help = true, help_heading = "Booking")]
    pub margin: u8,
    /// Avoid these domains
    ///
    /// Numbers of domains, separated by commas.
    #[arg(
        long,
        value_name = "DOMAIN",
        value_delimiter = ',',
        help_heading = "Selection"
    )]
    pub exclude_domain: Vec<u32>,
    /// Avoid these links between domains
    ///
    /// Numbers of border points, separated by commas.
    #[arg(
        long,
        value_name = "PORT",
        value_delimiter = ',',
        hide_short_help = true,
        help_heading = "Selection"
    )]
    pub exclude_link: Vec<u32>,
    /// Reserve a second path without common domains or links
    ///
    /// Both have the same rates over time. Both are reserved, or none is. If one fails later, the other carries on.
    #[arg(long, help_heading = "Booking")]
    pub protect: bool,
    /// Ask each domain of the path directly, not from domain to domain
    ///
    /// All of them must be neighbors of this domain.
    #[arg(long, hide_short_help = true, help_heading = "Booking")]
    pub tree: bool,
    /// Offer the path to this scheduler, as the capacity of --link
    ///
    /// The command runs until the path ends. An interrupt closes the link and cancels the path.
    #[arg(long, value_name = "URL", requires_all = ["hold", "link"], conflicts_with_all = ["when"], hide_short_help = true, help_heading = "Booking")]
    pub offer_to: Option<String>,
    /// Link of that scheduler, with at most the rate of the path
    #[arg(
        long,
        value_name = "NAME",
        requires = "offer_to",
        hide_short_help = true,
        help_heading = "Booking"
    )]
    pub link: Option<String>,
    /// File with the token for that scheduler
    ///
    /// `LIGHTHAUL_SCHEDULER_TOKEN` may hold the token itself.
    #[arg(
        long,
        value_name = "FILE",
        requires = "offer_to",
        hide_short_help = true,
        help_heading = "Booking"
    )]
    pub scheduler_token: Option<PathBuf>,
    /// Show when the path is available, and reserve nothing
    #[arg(long, help_heading = "Booking")]
    pub when: bool,
    #[command(flatten)]
    pub at: SocketArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Action on paths.
#[derive(Debug, Subcommand)]
pub enum PathAction {
    List(PathList),
    Show(PathShow),
    Cancel(PathCancel),
}

/// List the paths through this domain
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul path list
  lighthaul path list --json | jq -r 'select(.stage == \"committed\") | .id'")]
pub struct PathList {
    #[command(flatten)]
    pub at: SocketArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Draw paths domain by domain, with their rates over time
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul path show 0c5e
  lighthaul path show --json 0c5e | jq .steps")]
pub struct PathShow {
    /// IDs of paths, or their first digits
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub at: SocketArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Cancel paths of this domain, and free their capacity in all domains
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul path cancel 0c5e
  lighthaul path cancel --json 0c5e 91af")]
pub struct PathCancel {
    /// IDs of paths, or their first digits
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub at: SocketArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
