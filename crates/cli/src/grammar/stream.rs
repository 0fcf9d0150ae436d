//! The grammar of `lighthaul stream`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use lighthaul_base::{Rate, Size, duration};

use crate::grammar::reach::Via;

/// Carry messages or objects between two hosts while they are made.
///
/// One side is local, `-` for standard input or output or the path of a pipe; the other is a pipe or a file
/// on another host, as HOST:PATH (over ssh) or `lh://HOST[:PORT]/PATH` (a daemon). A pipe there needs its
/// reader first; a file grows.
///
/// Messages (fec) are small: each leaves at once in a datagram, and lost ones are restored from repair symbols that
/// come behind, so that nothing waits a round trip; restored ones come out of order, and what cannot be
/// restored is lost. Objects (rbudp) are larger and come at a known rate: those of a `--delay` cross together, and none is lost.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  tracker | lighthaul stream --deadline 50ms --late drop - lh://far.example.org/poses
  lighthaul stream --code rs:10+3 lh://far.example.org/poses - | renderer
  camera | lighthaul stream --protocol rbudp --object-size 1.44MB --objects-per-second 20 --delay 500ms - far:images")]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub(crate) struct Stream {
    /// Where it comes from
    #[arg(value_name = "SRC")]
    pub(crate) source: String,
    /// Where it goes
    #[arg(value_name = "DST")]
    pub(crate) target: String,
    /// How it crosses
    #[arg(long, value_enum, default_value_t)]
    pub(crate) protocol: Protocol,
    /// How both ends are read and written [default: lines for messages, fixed for objects]
    #[arg(long, value_enum)]
    pub(crate) frames: Option<Frames>,
    /// Repair symbols of messages: none, xor:N (one behind N) or rs:N+M (M behind N)
    #[arg(long, default_value = "xor:3")]
    pub(crate) code: String,
    /// How long a message waits for others that its repair symbol is about, too
    #[arg(long, value_name = "DURATION", default_value = "2ms", value_parser = duration::parse)]
    pub(crate) linger: Duration,
    /// How old a message may become [default: any age]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) deadline: Option<Duration>,
    /// What becomes of messages that are older
    #[arg(long, value_enum, default_value_t)]
    pub(crate) late: Late,
    /// Bytes of an object, as in 1.44MB, or the most that one has
    #[arg(long, value_name = "SIZE", required_if_eq("protocol", "rbudp"))]
    pub(crate) object_size: Option<Size>,
    /// How many objects come in a second
    #[arg(long, value_name = "N", required_if_eq("protocol", "rbudp"))]
    pub(crate) objects_per_second: Option<f64>,
    /// The delay of objects that is tolerated: those of so long cross together, which takes as long again
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse)]
    pub(crate) delay: Duration,
    /// Round trips that a payload may take within the delay: one, and one more for each blast that loss costs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) blasts: u8,
    /// Bits a second on the wire that are never exceeded [default: what the path carries, measured]
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// Do not encrypt datagrams (the far side must agree); control stays encrypted
    #[arg(long)]
    pub(crate) plain: bool,
    /// Carry the stream over TCP even where UDP passes
    #[arg(long)]
    pub(crate) no_udp: bool,
    /// Print what came of it as a JSON object, on standard output unless the stream goes there
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) via: Via,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// Messages with forward error correction
    #[default]
    Fec,
    /// Objects by RBUDP
    Rbudp,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Frames {
    /// A line each
    Lines,
    /// Four octets of length, big-endian, before each
    Prefixed,
    /// Each of `--object-size`
    Fixed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Late {
    /// They are delivered
    #[default]
    Deliver,
    /// They are dropped
    Drop,
}
