//! The grammar of `lighthaul scheduler`, the service that books capacity.
//!
//! [`Interface`] and [`Device`] parse `NAME=VALUE` for circuits. The options for clients are a
//! group of their own. Values are parsed here, but files that they name are read by the service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, value_parser};
use lighthaul_base::{Rate, duration};
use lighthaul_booking_client::json::Bytes;

use crate::output::LogArgs;
use crate::reach::KeyArgs;

/// Book link capacity for clients (bandwidth reservation service)
///
/// It keeps a calendar of all links and serves the REST interface of /openapi.json. It speaks TLS with this host's key
/// or a certificate, or HTTP on this host alone. Clients show a token from `lighthaul token --role`, or one that an
/// issuer has signed (OIDC, WLCG).
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul scheduler --topology network.toml
  lighthaul scheduler --topology Abilene.graphml --listen [::]:4811 --store /var/lib/lighthaul/books
  lighthaul scheduler --topology network.toml --store postgres://books@db.example.org/books \\
    --url https://one.example.org:4811 --listen [::]:4811 --certificate one.pem --certificate-key one.key \\
    --issuer https://idp.example.org/ --jwks https://idp.example.org/jwks --audience lighthaul

A topology in TOML:
  nodes = [\"chicago\"]             # fixes their order; others follow from the links
  [[link]]
  name = \"chicago-amsterdam\"      # default FROM-TO
  from = \"chicago\"
  to = \"amsterdam\"
  capacity = \"10Gb/s\"             # default --link-capacity
  channel = \"1Gb/s\"               # unit of rates; default 1Mb/s
  guard = \"50ms\"                  # guard time around a change of rate; default 0
  cost = 3                        # decides between paths that end at the same time; default 1
  both = true                     # also a link back, named TO-FROM
  back = \"amsterdam-chicago\"      # name of the link back
  interfaces = [\"eth1\"]           # interfaces of its circuits, see --shape and --device

Policies for identities of role user in TOML. The file is read again when it
changes. All keys are optional:
  [default]                       # identities that are not listed
  prefixes = [\"10.1.0.0/16\"]      # destinations of packets that circuits may carry; none
  interfaces = [\"eth1\"]           # interfaces where circuits may be provisioned; all
  links = [\"chicago-amsterdam\"]   # links that may be booked; all
  rate_max = \"1Gb/s\"              # all reservations of the identity at one time; no limit
  ahead = \"7d\"                    # latest end of a reservation from now; --horizon
  bytes_per_day = \"10TB\"          # --bytes-max
  reservations = 100              # --reservations-max
  uncommitted_per_hour = \"10m\"    # --uncommitted-max
  job_sources = [\"lh://near/\"]  # places that jobs may copy from; none
  job_targets = [\"lh://far/home/{user}/\"]  # and to, with the name of the user; none
  [identity.ada]                  # other keys as in [default]
  prefixes = [\"10.2.0.0/16\"]")]
// fields: one for each option of the command
pub struct Scheduler {
    /// Hosts and links, as TOML or .graphml
    ///
    /// The Internet Topology Zoo has .graphml files.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_TOPOLOGY",
        help_heading = "Booking"
    )]
    pub topology: PathBuf,
    /// Capacity of links without one in the topology
    #[arg(long, value_name = "RATE", help_heading = "Booking")]
    pub link_capacity: Option<Rate>,
    /// Store: file or postgres:// URL [default: books]
    ///
    /// Several schedulers may share a server of `PostgreSQL`. `?sslmode=verify-full` requires TLS, `&sslrootcert=FILE`
    /// names a certificate authority. For root, `books` is in /var/lib/lighthaul, for other users in
    /// `~/.config/lighthaul`.
    #[arg(
        long,
        value_name = "PLACE",
        env = "LIGHTHAUL_STORE",
        help_heading = "Booking"
    )]
    pub store: Option<String>,
    /// File of policies for users
    ///
    /// Without it users may book capacity but no circuits; operators may book everything.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_SCHEDULER_POLICY",
        help_heading = "Booking"
    )]
    pub policy: Option<PathBuf>,
    /// Queue of jobs: file or postgres:// URL [default: none]
    ///
    /// Clients submit copies there (/v1/jobs), and `lighthaul jobs work --queue PLACE` runs them. Users may submit
    /// copies between the places that their policies list; operators, between all places that are not local.
    #[arg(
        long,
        value_name = "PLACE",
        env = "LIGHTHAUL_SCHEDULER_JOBS",
        help_heading = "Booking",
        hide_short_help = true
    )]
    pub jobs: Option<PathBuf>,
    /// Interface for circuits, as in eth1=10Gb/s
    ///
    /// Separate several interfaces with commas.
    #[arg(
        long,
        value_name = "NAME=RATE",
        value_delimiter = ',',
        help_heading = "Circuits"
    )]
    pub shape: Vec<Interface>,
    /// Provision by a driver, as in 'sw1=/bin/sw1 -p 2'
    ///
    /// The program drives the device named NAME. Words after the program are its arguments, with quotes as in a shell.
    /// Several devices are separated by commas, so an argument cannot have a comma.
    #[arg(
        long,
        value_name = "NAME=COMMAND",
        value_delimiter = ',',
        help_heading = "Circuits"
    )]
    pub device: Vec<Device>,
    /// Provision by a switch that speaks TL1
    ///
    /// The file has its address, its dialect, and the channels of its interfaces. Several are separated by commas.
    #[arg(
        long,
        value_name = "FILE",
        value_delimiter = ',',
        help_heading = "Circuits"
    )]
    pub switch: Vec<PathBuf>,
    /// Write off a device that is lost, and fail its reservations
    ///
    /// A scheduler does not start without the driver of a device that may have circuits, since these would stay.
    /// Remove the circuits of a device that is given up by hand. Several devices are separated by commas.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "Circuits",
        hide_short_help = true
    )]
    pub give_up: Vec<String>,
    /// Offer circuits to NSI requesters
    ///
    /// The file has the names of the network and its ports, and the permitted requesters.
    #[arg(
        long,
        value_name = "FILE",
        env = "LIGHTHAUL_SCHEDULER_NSI",
        help_heading = "Circuits",
        hide_short_help = true
    )]
    pub nsi: Option<PathBuf>,
    /// Address to listen on
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:4811",
        env = "LIGHTHAUL_SCHEDULER_LISTEN",
        help_heading = "Network"
    )]
    pub listen: SocketAddr,
    /// PEM file of certificates, own first [default: of this host's key]
    ///
    /// Without it, the scheduler makes a certificate of this host's key.
    #[arg(
        long,
        value_name = "FILE",
        requires = "certificate_key",
        help_heading = "Network"
    )]
    pub certificate: Option<PathBuf>,
    /// PEM file with the private key of the first certificate
    #[arg(
        long,
        value_name = "FILE",
        requires = "certificate",
        help_heading = "Network"
    )]
    pub certificate_key: Option<PathBuf>,
    /// Serve HTTP without TLS, to this host alone
    #[arg(long, help_heading = "Network", hide_short_help = true)]
    pub no_tls: bool,
    /// With --no-tls, serve other hosts too
    #[arg(
        long,
        requires = "no_tls",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub insecure: bool,
    /// URL at which other schedulers of the store reach this one
    #[arg(
        long,
        value_name = "URL",
        env = "LIGHTHAUL_SCHEDULER_URL",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub url: Option<String>,
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub welcome: AccessArgs,
    /// Lifetime of uncommitted reservations
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse, help_heading = "Limits")]
    pub hold: Duration,
    /// Maximum time from now to the end of a reservation
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = duration::parse, help_heading = "Limits")]
    pub horizon: Duration,
    /// Maximum reservations per owner at one time
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1000,
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub reservations_max: usize,
    /// Maximum time per hour to hold a link without a commit [default: 10m]
    ///
    /// Each user has this time for each link. Without this option, users have five times --hold if that is longer, and
    /// requesters of NSI have no limit. A hold counts for no longer than the time that it reserves, by its share of the
    /// capacity of the link.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration::parse,
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub uncommitted_max: Option<Duration>,
    /// Maximum bytes per owner and day [default: no limit]
    #[arg(
        long,
        value_name = "SIZE",
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub bytes_max: Option<Bytes>,
    /// Maximum requests per second per identity
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=100_000), help_heading = "Limits", hide_short_help = true)]
    pub questions_max: u32,
    /// Maximum connections at one time
    ///
    /// The limit is also three quarters of the maximum number of open files. Beyond the limit the connection that has
    /// been idle longest is closed. A client has 10 s each for the TLS handshake, the header of a request and its body.
    /// It must read part of a response within 10 s. Responses in progress take at most 64 MiB together.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1024,
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub connections_max: usize,
    /// Maximum connections per address (IPv6: /48) or identity
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub connections_each: usize,
    #[command(flatten)]
    pub log: LogArgs,
    /// Continue with a store that was restored from a backup
    ///
    /// Reservations made since the backup are lost. Use it once.
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    pub accept_restored: bool,
}

/// Clients that are admitted.
#[derive(Args, Debug)]
#[command(next_help_heading = "Access")]
pub struct AccessArgs {
    /// List of tokens [default: `scheduler_tokens`]
    ///
    /// The list is in `/etc/lighthaul`, or in `~/.config/lighthaul` unless root. `lighthaul token --role` writes it.
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_SCHEDULER_TOKENS")]
    pub tokens: Option<PathBuf>,
    /// Trusted token issuer (exact match)
    #[arg(long, value_name = "URL", requires_all = ["jwks", "audience"])]
    pub issuer: Option<String>,
    /// URL of the issuer's keys (JWKS)
    #[arg(long, value_name = "URL", requires = "issuer", hide_short_help = true)]
    pub jwks: Option<String>,
    /// Audience that signed tokens must name; several with commas
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        requires = "issuer",
        hide_short_help = true
    )]
    pub audience: Vec<String>,
    /// Scope or group that a signed token must have
    #[arg(long, value_name = "NAME", requires = "issuer", hide_short_help = true)]
    pub user_scope: Option<String>,
    /// Scope or group of operators
    #[arg(long, value_name = "NAME", requires = "issuer", hide_short_help = true)]
    pub operator_scope: Option<String>,
    /// Scope or group of administrators
    #[arg(long, value_name = "NAME", requires = "issuer", hide_short_help = true)]
    pub admin_scope: Option<String>,
}

/// Interface of this host, and its rate.
#[derive(Clone, Debug)]
pub struct Interface {
    pub name: String,
    pub rate: Rate,
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rate) = named(text).ok_or("write it as in eth1=10Gb/s")?;
        let rate = rate.parse().map_err(|e| format!("{e}"))?;
        Ok(Self { name, rate })
    }
}

/// Device, and its driver program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

impl FromStr for Device {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let as_in = "write it as in 'switch1=/usr/local/bin/switch1 --port 2'";
        let (name, command) = named(text).ok_or(as_in)?;
        let words = shlex::split(command).ok_or("a quote is not closed: close it")?;
        let (program, arguments) = words.split_first().ok_or(as_in)?;
        Ok(Self {
            name,
            program: program.into(),
            arguments: arguments.to_vec(),
        })
    }
}

/// Splits `NAME=VALUE`.
fn named(text: &str) -> Option<(String, &str)> {
    let (name, rest) = text.split_once('=')?;
    (!name.is_empty()).then(|| (name.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_after_a_driver_program_are_its_arguments() {
        let parsed = |text: &str| text.parse::<Device>();
        let device = |program: &str, arguments: &[&str]| {
            Ok(Device {
                name: "sw1".to_owned(),
                program: program.into(),
                arguments: arguments.iter().map(ToString::to_string).collect(),
            })
        };
        assert_eq!(parsed("sw1=/bin/sw1"), device("/bin/sw1", &[]));
        assert_eq!(
            parsed("sw1='/opt/a driver' --port=2 \"b c\""),
            device("/opt/a driver", &["--port=2", "b c"])
        );
        for wrong in ["sw1", "=/bin/sw1", "sw1=", "sw1='/bin/sw1"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
