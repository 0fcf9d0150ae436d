//! The grammar of `lighthaul cp`.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum, value_parser};
use lighthaul_base::Rate;
use lighthaul_booking::word::Moment;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_session::protocol::{AUTO, Protocol};
use lighthaul_session::secrets::JOINS_MAX;

use crate::grammar::booking::Booked;
use crate::grammar::choice::Choice;
use crate::grammar::output::Progress;
use crate::grammar::reach::Via;
use crate::grammar::timing::Later;

/// Copy files and trees to or from another host.
///
/// A side is local, HOST:PATH or USER@HOST:PATH (started there over ssh) or `lh://HOST[:PORT]/PATH`
/// (a daemon). Between two that are not local, files go from one to the other and not through this
/// host. A folder written with a slash at its end stands for its contents, as `.` and `..` do. A target with a slash
/// is a folder to copy into; without one it is the new name.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = COPIES)]
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

const COPIES: &str = "Examples:
  lighthaul cp results/ alice@far.example.org:/data/results
  lighthaul cp lh://far.example.org/results/run1.h5 .
  lighthaul cp --rate 900Mb/s --json results lh://far.example.org/archive/";
