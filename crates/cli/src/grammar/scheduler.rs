//! The grammar of `lighthaul scheduler`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, value_parser};
use lighthaul_base::{Rate, duration};
use lighthaul_booking::word::Bytes;

use crate::grammar::output::LogFormat;
use crate::grammar::reach::KeyFile;

/// Book capacity of links for those who ask for it.
///
/// It keeps a calendar of all links and answers over HTTP, as /openapi.json says: within TLS, known by this
/// host's key or by a certificate, or in the clear on this host alone. Who asks shows a token: one that
/// `lighthaul token --role` has made, or one that an issuer has signed (OIDC, WLCG).
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul scheduler --topology network.toml
  lighthaul scheduler --topology Abilene.graphml --listen [::]:4811 --store /var/lib/lighthaul/books
  lighthaul scheduler --topology network.toml --store postgres://books@db.example.org/books \\
    --url https://one.example.org:4811 --listen [::]:4811 --certificate one.pem --certificate-key one.key \\
    --issuer https://idp.example.org/ --jwks https://idp.example.org/jwks --audience lighthaul

A topology in TOML:
  nodes = [\"chicago\"]           # only to have an order; the others follow from links
  [[link]]
  name = \"chicago-amsterdam\"    # FROM-TO, if it is left out
  from = \"chicago\"
  to = \"amsterdam\"
  capacity = \"10Gb/s\"           # --link-capacity
  channel = \"1Gb/s\"             # what rates are multiples of; 1 Mb/s
  guard = \"50ms\"                # how long a change of rate takes; none
  cost = 3                        # of two paths that end as early, the cheaper is taken; 1
  both = true                     # also a link back, called TO-FROM
  back = \"amsterdam-chicago\"    # what that one is called instead
  interfaces = [\"eth1\"]         # where circuits of the link are made, by --shape or --device

A file of policies for identities of role user, in TOML, which is read again when it changes; each
line may be left out:
  [default]                       # identities that are not listed
  prefixes = [\"10.1.0.0/16\"]    # destinations of packets that circuits may carry; none
  interfaces = [\"eth1\"]         # interfaces at which circuits may be made; all
  links = [\"chicago-amsterdam\"] # links that may be booked; all
  rate_max = \"1Gb/s\"            # all reservations of the identity at one time; no limit
  ahead = \"7d\"                  # how far ahead a reservation may end; --horizon
  bytes_per_day = \"10TB\"        # --bytes-max
  reservations = 100              # --reservations-max
  [identity.ada]                  # what is not said here is as in [default]
  prefixes = [\"10.2.0.0/16\"]")]
pub(crate) struct Scheduler {
    /// Hosts and links: a TOML file, or .graphml as the Internet Topology Zoo has it
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_TOPOLOGY")]
    pub(crate) topology: PathBuf,
    /// Default link capacity, for links of which the topology gives none
    #[arg(long, value_name = "RATE")]
    pub(crate) link_capacity: Option<Rate>,
    /// Where the books are kept: a file, or the postgres:// URL of a server that several schedulers share;
    /// ?sslmode=verify-full in it has TLS spoken, with &sslrootcert=FILE for an authority of your own
    #[arg(long, value_name = "PLACE", env = "LIGHTHAUL_STORE")]
    pub(crate) store: Option<String>,
    /// Go on once with books that were restored from a copy; what was booked since is forgotten
    #[arg(long)]
    pub(crate) accept_restored: bool,
    /// Make circuits at this host's interface of this rate, as in eth1=10Gb/s; several are separated by commas
    #[arg(long, value_name = "NAME=RATE", value_delimiter = ',')]
    pub(crate) shape: Vec<Interface>,
    /// Make circuits at the device of this name, for which this program speaks; several are separated by commas
    #[arg(long, value_name = "NAME=PROGRAM", value_delimiter = ',')]
    pub(crate) device: Vec<Device>,
    /// Where to listen
    #[arg(
        long,
        default_value = "127.0.0.1:4811",
        env = "LIGHTHAUL_SCHEDULER_LISTEN"
    )]
    pub(crate) listen: SocketAddr,
    /// Where other schedulers of the same store reach this one
    #[arg(long, value_name = "URL", env = "LIGHTHAUL_SCHEDULER_URL")]
    pub(crate) url: Option<String>,
    /// Certificates as PEM, this host's own first [default: one around this host's key]
    #[arg(long, value_name = "FILE", requires = "certificate_key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The key of the first certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) certificate_key: Option<PathBuf>,
    /// Speak in the clear, to this host alone
    #[arg(long)]
    pub(crate) no_tls: bool,
    /// With --no-tls, speak in the clear to everybody
    #[arg(long, requires = "no_tls")]
    pub(crate) insecure: bool,
    /// Policies of what identities may book, a TOML file [default: capacity, but no circuits; operators may book all]
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_SCHEDULER_POLICY")]
    pub(crate) policy: Option<PathBuf>,
    /// Time before an uncommitted reservation expires
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    pub(crate) hold: Duration,
    /// How far ahead bookings may end
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = duration::parse)]
    pub(crate) horizon: Duration,
    /// How many reservations one owner may have at once
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) reservations_max: usize,
    /// Bytes that one owner may book per day [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub(crate) bytes_max: Option<Bytes>,
    /// How many questions a second each name may ask
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) questions_max: u32,
    /// Connections at one time; beyond them the one that is stuck for longest ends
    ///
    /// Never more than three quarters of the files that may be open. A caller has 10 s for the TLS handshake, for the head of
    /// a request and for its body, and 10 s to take some of an answer. Answers on their way take at most 64 MiB together.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) connections_max: usize,
    /// Connections of one address (one /48 of IPv6), and of one identity
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) connections_each: usize,
    /// How the log on standard error is written; `LIGHTHAUL_LOG` says how much, as in `debug`
    #[arg(long, value_enum, default_value_t, env = "LIGHTHAUL_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) key: KeyFile,
    #[command(flatten)]
    pub(crate) welcome: Welcome,
}

/// Who is let in.
#[derive(Args, Debug)]
pub(crate) struct Welcome {
    /// The file that lists the tokens whose bearers may ask
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_SCHEDULER_TOKENS")]
    pub(crate) tokens: Option<PathBuf>,
    /// Trusted token issuer (exact match)
    #[arg(long, value_name = "URL", requires_all = ["jwks", "audience"])]
    pub(crate) issuer: Option<String>,
    /// Where the issuer's keys are
    #[arg(long, value_name = "URL", requires = "issuer")]
    pub(crate) jwks: Option<String>,
    /// What signed tokens call this scheduler; several are separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "issuer")]
    pub(crate) audience: Vec<String>,
    /// The scope or group without which a signed token lets nobody in
    #[arg(long, value_name = "NAME", requires = "issuer")]
    pub(crate) user_scope: Option<String>,
    /// The scope or group of operators
    #[arg(long, value_name = "NAME", requires = "issuer")]
    pub(crate) operator_scope: Option<String>,
    /// The scope or group of admins
    #[arg(long, value_name = "NAME", requires = "issuer")]
    pub(crate) admin_scope: Option<String>,
}

/// An interface of this host, and what it carries.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) rate: Rate,
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rate) = named(text).ok_or("write it as in eth1=10Gb/s")?;
        let rate = rate.parse().map_err(|e| format!("{e}"))?;
        Ok(Self { name, rate })
    }
}

/// A device, and the program that speaks for it.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
}

impl FromStr for Device {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, program) = named(text).ok_or("write it as in switch1=/usr/local/bin/switch1")?;
        let program = program.into();
        Ok(Self { name, program })
    }
}

/// A name, and what is behind it.
fn named(text: &str) -> Option<(String, &str)> {
    let (name, rest) = text.split_once('=')?;
    (!name.is_empty()).then(|| (name.to_owned(), rest))
}
