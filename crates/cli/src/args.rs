//! The grammar of the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use lighthaul_base::{Rate, Size};
use lighthaul_booking::word::Moment;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_transfer::join::JOINS_MAX;
use lighthaul_transfer::protocol::{AUTO, Protocol};

use crate::booking::args::{Book, Booked, Calendar, Cancel, Quote, Reservations, Scheduler};
use crate::choice::Choice;
use crate::doctor::args::Doctor;
use crate::files::args::{Ls, Mkdir, Rm, Stat};
use crate::gateway::args::{Action, Gateway};
use crate::key_args::{Allow, Deny, Key, Sign, Token, Trust};
use crate::later::Later;
use crate::manual::{Completions, Man};
use crate::passage::Through;
use crate::reach::Via;
use crate::stream::args::Stream;
use crate::sums::args::{Manifest, Verify};
use crate::wrap::args::Wrap;

/// Moves bulk data between sites as fast as the path and both hosts allow, verified end to end.
#[derive(Debug, Parser)]
#[command(
    name = "lighthaul",
    version,
    max_term_width = 100,
    disable_version_flag = true,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Cli {
    /// Print the version
    #[arg(short = 'V', long)]
    pub(crate) version: bool,
    /// With --version, print it as a JSON object
    #[arg(long, requires = "version")]
    pub(crate) json: bool,
    /// What to do; nothing beside --version
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(after_long_help = COPIES)]
    Cp(Cp),
    Stream(Stream),
    Ls(Ls),
    Stat(Stat),
    Rm(Rm),
    Mkdir(Mkdir),
    Verify(Verify),
    Manifest(Manifest),
    /// Let others copy to and from this host
    Serve(Serve),
    Gateway(Gateway),
    #[command(after_long_help = PROBES)]
    Probe(Probe),
    Doctor(Doctor),
    Scheduler(Scheduler),
    Book(Book),
    Quote(Quote),
    Reservations(Reservations),
    Cancel(Cancel),
    Calendar(Calendar),
    Wrap(Wrap),
    /// Print this user's key, or (as root) this host's with --host
    Key(Key),
    /// Let the holder of a key copy to and from this host
    Allow(Allow),
    /// Keep the holder of a key out from now on, whoever vouches for it
    Deny(Deny),
    /// Accept a daemon's key from now on
    Trust(Trust),
    /// Make a token whose bearer may copy to and from this host
    Token(Token),
    /// Sign for the holder of a key, who may then call daemons that take your word for it
    Sign(Sign),
    /// Print the options that are in force, and where each is from
    Config,
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
    /// Try things out between hosts that exist only on this machine
    #[command(subcommand)]
    Lab(Lab),
}

const COPIES: &str = "Examples:
  lighthaul cp results/ alice@far.example.org:/data/results
  lighthaul cp lh://far.example.org/results/run1.h5 .
  lighthaul cp --rate 900Mb/s --json results lh://far.example.org/archive/";

const PROBES: &str = "Examples:
  lighthaul probe lh://far.example.org/
  lighthaul probe --what sealed --rate 5Gb/s far.example.org
  lighthaul probe --disk /data";

const LABS: &str = "Examples:
  lighthaul lab run --rate 1Gb/s --rtt 100ms --loss 0.01% -- ping -c 3 b
  lighthaul lab run description.toml --in b -- ip address";

impl Command {
    /// Whether standard output is for programs.
    pub(crate) const fn is_json(&self) -> bool {
        match self {
            Self::Cp(args) => args.json,
            Self::Stream(args) => args.json,
            Self::Ls(args) => args.output.json,
            Self::Stat(args) => args.at.output.json,
            Self::Rm(args) => args.at.output.json,
            Self::Mkdir(args) => args.at.output.json,
            Self::Doctor(args) => args.output.json,
            Self::Verify(args) => args.output.json,
            Self::Manifest(args) => args.output.json,
            Self::Probe(args) => args.json,
            Self::Book(args) => args.asking.output.json,
            Self::Quote(args) => args.asking.output.json,
            Self::Reservations(args) => args.asking.output.json,
            Self::Cancel(args) => args.asking.output.json,
            Self::Calendar(args) => args.asking.output.json,
            Self::Gateway(args) => {
                matches!(&args.action, Some(Action::Status(status)) if status.json)
            }
            Self::Scheduler(_)
            | Self::Serve(_)
            | Self::Wrap(_)
            | Self::Key(_)
            | Self::Allow(_)
            | Self::Deny(_)
            | Self::Trust(_)
            | Self::Token(_)
            | Self::Sign(_)
            | Self::Config
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Lab(_) => false,
        }
    }
}

/// Copy files and trees to or from another host.
///
/// A side is local, HOST:PATH or USER@HOST:PATH (started there over ssh) or `lh://HOST[:PORT]/PATH`
/// (a daemon). Between two that are not local, files go from one to the other and not through this
/// host. A folder written with a slash at its end stands for its contents, as `.` and `..` do. A target with a slash
/// is a folder to copy into; without one it is the new name.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub(crate) struct Cp {
    /// Which copy this is, however often it is tried.
    #[arg(skip = random_octets())]
    pub(crate) copy: [u8; 16],
    /// What to copy, and last, where to
    #[arg(required = true, num_args = 2.., value_name = "SRC... DST")]
    pub(crate) paths: Vec<String>,
    /// Bits a second on the wire, as in 900Mb/s [default: measured]
    #[arg(long, env = "LIGHTHAUL_RATE")]
    pub(crate) rate: Option<Rate>,
    /// What moves the data; auto decides from what the path is seen to be [default: rbudp, and tcp through a gateway]
    #[arg(long, value_name = "NAME", value_parser = named(), env = "LIGHTHAUL_PROTOCOL")]
    pub(crate) protocol: Option<String>,
    /// When a circuit carries how much, as in '0s-2s 400Mb/s, 2s-5s 900Mb/s' or in a file; --protocol vbtp follows it
    #[arg(long, value_name = "VECTOR", env = "LIGHTHAUL_TRC")]
    pub(crate) trc: Option<String>,
    /// Others use the path and are to have their part of it: auto keeps to what leaves them that
    #[arg(long, env = "LIGHTHAUL_SHARED")]
    pub(crate) shared: bool,
    /// Connections that carry the data with --protocol ptcp [default: measured]
    #[arg(
        long,
        value_name = "N",
        value_parser = value_parser!(u8).range(1..=i64::from(JOINS_MAX)),
        env = "LIGHTHAUL_STREAMS"
    )]
    pub(crate) streams: Option<u8>,
    /// Do not encrypt packets (the far side must agree); control stays encrypted
    #[arg(long, env = "LIGHTHAUL_PLAIN")]
    pub(crate) plain: bool,
    /// Digest of each file [default: crc128, with --plain blake3]
    #[arg(long, value_enum, env = "LIGHTHAUL_DIGEST")]
    pub(crate) digest: Option<Digest>,
    /// Publish without waiting for the disk
    #[arg(long, env = "LIGHTHAUL_NO_SYNC")]
    pub(crate) no_sync: bool,
    /// Carry the data over TCP even where UDP passes
    #[arg(long, env = "LIGHTHAUL_NO_UDP")]
    pub(crate) no_udp: bool,
    /// Print what the transfer cost and saw
    #[arg(long)]
    pub(crate) stats: bool,
    /// Print events as one JSON object a line on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Show progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) progress: Progress,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Accepted for those who type it: folders are always copied whole
    #[arg(short = 'r', long, hide = true)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) choice: Choice,
    #[command(flatten)]
    pub(crate) later: Later,
    #[command(flatten)]
    pub(crate) booked: Booked,
    /// When the vector begins, if it does not wait for the data.
    #[arg(skip)]
    pub(crate) vector_at: Option<Moment>,
    #[command(flatten)]
    pub(crate) via: Via,
}

/// The protocols by their names, and that the path is to decide.
fn named() -> PossibleValuesParser {
    let names = Protocol::ALL.iter().map(|protocol| protocol.name());
    PossibleValuesParser::new(names.chain([AUTO]))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Digest {
    /// CRC-64/NVME and CRC-64/XZ: finds accidents in memory, on disks and in the program; no forger, which sealed packets
    /// keep out
    Crc128,
    /// BLAKE3: finds forgeries, too, so that plain packets need no trust in the path
    Blake3,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// A line that moves if standard error is a terminal
    #[default]
    Auto,
    /// A line that moves
    Bar,
    /// A line a second
    Plain,
    /// Nothing
    None,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct KeyFile {
    /// This side's private key, made if it is missing
    #[arg(long = "key", value_name = "FILE", env = "LIGHTHAUL_KEY")]
    pub(crate) path: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen, for TCP and UDP alike
    #[arg(long, default_value = "[::]:4810", env = "LIGHTHAUL_LISTEN")]
    pub(crate) listen: String,
    /// Serve this folder and what is below it, and nothing else; required, --root / serves the whole host
    #[arg(long, value_name = "DIR", env = "LIGHTHAUL_ROOT")]
    pub(crate) root: Option<PathBuf>,
    /// List of the keys that may call [default: `/etc/lighthaul/allowed_keys`; `~/.config/lighthaul/allowed_keys` unless root]
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_ALLOWED")]
    pub(crate) allowed: Option<PathBuf>,
    /// List of the tokens whose bearers may call [default: `tokens`, beside `allowed_keys`]
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_TOKENS")]
    pub(crate) tokens: Option<PathBuf>,
    /// Agree to plain packets when a client asks for them
    #[arg(long, env = "LIGHTHAUL_PLAIN")]
    pub(crate) plain: bool,
    /// Do not send files on to other daemons for clients
    #[arg(long, env = "LIGHTHAUL_NO_RELAY")]
    pub(crate) no_relay: bool,
    /// Where Prometheus may ask for /metrics over HTTP, as in 127.0.0.1:9481 [default: nowhere]
    #[arg(long, value_name = "ADDR", env = "LIGHTHAUL_METRICS_LISTEN")]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// How the log on standard error is written; `LIGHTHAUL_LOG` says how much, as in `debug`
    #[arg(long, value_enum, default_value_t, env = "LIGHTHAUL_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) limits: ServeLimits,
    /// Serve one session for the key named on standard input; what ssh starts
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) key: KeyFile,
}

/// Limits on what callers may use, all together and each.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
#[expect(
    clippy::struct_field_names,
    reason = "flags are called as their fields are"
)]
pub(crate) struct ServeLimits {
    /// Run at most this many sessions at a time
    #[arg(long, value_name = "N", default_value_t = 256, env = "LIGHTHAUL_MAX_SESSIONS", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions: u32,
    /// Run at most this many sessions of one key or token
    #[arg(long, value_name = "N", default_value_t = 64, env = "LIGHTHAUL_MAX_SESSIONS_PER_KEY", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions_per_key: u32,
    /// Run at most this many sessions from one address (of IPv6, a /64)
    #[arg(long, value_name = "N", default_value_t = 192, env = "LIGHTHAUL_MAX_SESSIONS_PER_ADDRESS", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions_per_address: u32,
    /// Run at most this many sessions from one network (an IPv4 /24, an IPv6 /56 or /48)
    #[arg(long, value_name = "N", default_value_t = 224, env = "LIGHTHAUL_MAX_SESSIONS_PER_NETWORK", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions_per_network: u32,
    /// Take at most this many connections of one key for ptcp, besides one for each session
    #[arg(long, value_name = "N", default_value_t = 512, env = "LIGHTHAUL_MAX_CONNECTIONS_PER_KEY", value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_connections_per_key: u32,
    /// Use at most this much memory for sessions; one key gets half
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4GiB",
        env = "LIGHTHAUL_MAX_MEMORY"
    )]
    pub(crate) max_memory: Size,
    /// Run at most this many threads for sessions; one key gets half
    #[arg(long, value_name = "N", default_value_t = 8192, env = "LIGHTHAUL_MAX_THREADS", value_parser = value_parser!(u64).range(16..))]
    pub(crate) max_threads: u64,
    /// Open at most this many files for sessions; one key gets half [default: what the system allows]
    #[arg(long, value_name = "N", env = "LIGHTHAUL_MAX_OPEN_FILES", value_parser = value_parser!(u64).range(64..))]
    pub(crate) max_open_files: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of words
    #[default]
    Text,
    /// A JSON object a line
    Json,
}

/// Measure what a path and the hosts at its ends can do.
///
/// That is the network alone, with the copy into memory that every transfer needs, RBUDP itself, plain and
/// sealed, the other protocols, and the disks.
#[derive(Args, Debug)]
pub(crate) struct Probe {
    /// `lh://HOST[:PORT]/` where `lighthaul serve` runs; leave it out to probe a disk alone
    pub(crate) host: Option<String>,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    pub(crate) what: Vec<What>,
    /// Bits a second on the wire [default: as fast as the hosts can; 100Gb/s for sabul, sabul-swift and vbtp]
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// Seconds that each raw measurement lasts
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// Bytes that a protocol moves, and that the disk is tried with
    #[arg(long, default_value = "2GiB")]
    pub(crate) size: Size,
    /// A folder here whose disk is tried: writing, then reading
    #[arg(long, value_name = "DIR")]
    pub(crate) disk: Option<PathBuf>,
    /// Print one JSON object a line on standard output
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) through: Through,
    #[command(flatten)]
    pub(crate) far: Far,
}

/// How a daemon is known.
#[derive(Args, Clone, Debug)]
pub(crate) struct Far {
    /// The key that the daemon must show (sha256:...), instead of a known one
    #[arg(long, value_name = "KEY", env = "LIGHTHAUL_PIN")]
    pub(crate) pin: Option<String>,
    /// Refuse a daemon that was never called before, rather than know it from then on
    #[arg(long, env = "LIGHTHAUL_STRICT")]
    pub(crate) strict: bool,
    /// The file with the token that the daemon knows us by; or the token itself in `LIGHTHAUL_TOKEN`
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The file with what an authority signed for our key [default: `statement` beside the key]
    #[arg(long, value_name = "FILE", env = "LIGHTHAUL_STATEMENT")]
    pub(crate) statement: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) key: KeyFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Everything
    All,
    /// The network alone: trains sent, received and dropped
    Network,
    /// The network plus one copy into memory: the honest bound (`app_perf`)
    Copy,
    /// RBUDP whose receiver drops what it gets
    Fake,
    /// RBUDP whose receiver copies each packet to its place
    Place,
    /// RBUDP whose receiver predicts where packets land
    Scatter,
    /// RBUDP, encrypted, copied to its place
    Sealed,
    /// RBUDP, encrypted, predicted
    SealedScatter,
    /// RBUDP+ whose receiver copies each packet to its place
    Plus,
    /// SABUL by its paper's rules
    Sabul,
    /// SABUL by the second set of rules
    SabulSwift,
    /// VBTP on a circuit of the rate
    Vbtp,
    /// One stream, encrypted
    Tcp,
    /// Many streams, encrypted
    Ptcp,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run a command between test hosts; with no description, hosts a and b on one link
    #[command(after_long_help = LABS)]
    Run(LabRun),
    /// Run a shell between test hosts
    Shell(LabFlags),
    /// Draw the papers' figures again, and say what is not as it was accepted
    Figures(LabFigures),
    /// From inside a lab: run a command on another of its hosts
    On {
        /// The host
        host: String,
        /// The command
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct LabFigures {
    /// Plans, tables and pictures
    #[arg(value_name = "DIR", default_value = "figures")]
    pub(crate) folder: PathBuf,
    /// Measure every case between test hosts too; else earlier measurements are kept
    #[arg(long)]
    pub(crate) emulate: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LabRun {
    #[command(flatten)]
    pub(crate) flags: LabFlags,
    /// The command, run on the first host
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct LabFlags {
    /// A TOML file of hosts, routers and links
    pub(crate) description: Option<PathBuf>,
    /// Rate of the link, as in 1Gb/s [default: unlimited]
    #[arg(long)]
    pub(crate) rate: Option<String>,
    /// Round-trip time, as in 100ms
    #[arg(long)]
    pub(crate) rtt: Option<String>,
    /// Delay one way
    #[arg(long)]
    pub(crate) delay: Option<String>,
    /// Bytes that queue before the link [default: one bandwidth-delay product]
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Packets lost at random, as in 0.01%
    #[arg(long)]
    pub(crate) loss: Option<String>,
    /// Loss in bursts: how often one begins, and how many packets it takes, as in 0.01%x10
    #[arg(long)]
    pub(crate) burst_loss: Option<String>,
    /// Packets that arrive late, as in 1%x2ms
    #[arg(long)]
    pub(crate) reorder: Option<String>,
    /// Packets that arrive twice
    #[arg(long)]
    pub(crate) duplicate: Option<String>,
    /// What the link is: wan (emulated) or veth (as fast as the kernel)
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// On veth, cut trains into packets before the receiver, as a network card does
    #[arg(long)]
    pub(crate) segment: bool,
    /// The largest packet
    #[arg(long)]
    pub(crate) mtu: Option<u32>,
    /// Repeat the chances of an earlier run
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The host that the command runs on
    #[arg(long = "in", value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Print what the links have seen
    #[arg(short, long)]
    pub(crate) verbose: bool,
}
