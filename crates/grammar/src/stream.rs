//! The grammar of `lighthaul stream`.

use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use lighthaul_base::{Rate, Size, duration};

use crate::reach::RemoteArgs;

/// Carry messages or objects between hosts as they are produced
///
/// One side is local: `-` for standard input or output, or the path of a pipe. The other is a pipe or a file on another
/// host, as HOST:PATH (over ssh) or `lh://HOST[:PORT]/PATH` (a daemon). Start the reader of a
/// remote pipe first. Data are appended to a remote file.
///
/// Messages (fec) are small. Each leaves at once in a datagram, and repair symbols that follow restore lost ones
/// without a round trip. Restored messages arrive out of order, and messages that cannot be restored are lost. Objects
/// (rbudp) are larger and come at a known rate. Objects that are read within one --delay are sent together, and none is
/// lost.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  tracker | lighthaul stream --deadline 50ms --late drop - lh://far.example.org/poses
  lighthaul stream --code rs:10+3 lh://far.example.org/poses - | renderer
  camera | lighthaul stream --protocol rbudp --object-size 1.44MB --objects-per-second 20 --delay 500ms - far:images")]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
// fields: one for each option of the command
pub struct Stream {
    /// - for standard input, a pipe, or a remote place
    #[arg(value_name = "SRC", value_hint = ValueHint::AnyPath)]
    pub source: String,
    /// - for standard output, a pipe, or a remote place
    #[arg(value_name = "DST", value_hint = ValueHint::AnyPath)]
    pub target: String,
    /// Transport: fec for messages or rbudp for objects
    #[arg(long, value_enum, default_value_t, help_heading = "Protocol")]
    pub protocol: Protocol,
    /// Framing at both ends [default: lines, or fixed for objects]
    #[arg(long, value_enum, help_heading = "Protocol")]
    pub frames: Option<Frames>,
    /// Forward error correction: none, xor:N or rs:N+M
    ///
    /// xor:N sends one repair symbol for N messages, rs:N+M sends M.
    #[arg(long, default_value = "xor:3", help_heading = "Messages")]
    pub code: String,
    /// Maximum wait for a block of messages to fill
    #[arg(long, value_name = "DURATION", default_value = "2ms", value_parser = duration::parse, help_heading = "Messages")]
    pub linger: Duration,
    /// Maximum useful age of a message [default: any]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = "Messages")]
    pub deadline: Option<Duration>,
    /// Deliver or drop late messages
    #[arg(long, value_enum, default_value_t, help_heading = "Messages")]
    pub late: Late,
    /// Size of an object, as in 1.44MB, or its maximum
    #[arg(
        long,
        value_name = "SIZE",
        required_if_eq("protocol", "rbudp"),
        help_heading = "Objects"
    )]
    pub object_size: Option<Size>,
    /// Objects per second
    #[arg(
        long,
        value_name = "N",
        required_if_eq("protocol", "rbudp"),
        help_heading = "Objects"
    )]
    pub objects_per_second: Option<f64>,
    /// Time to collect a payload, and again for it to cross
    ///
    /// Objects that are read within this time are sent together as one payload. The first object of a payload may be
    /// twice as old when it arrives.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse, help_heading = "Objects")]
    pub delay: Duration,
    /// Planned passes (blasts) per payload
    ///
    /// The first blast sends all packets, each further one resends lost packets and takes one round trip.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100), help_heading = "Objects")]
    pub blasts: u8,
    /// Highest rate on the wire [default: measured]
    #[arg(long, help_heading = "Network")]
    pub rate: Option<Rate>,
    /// Do not encrypt datagrams; the other side must agree
    #[arg(long, help_heading = "Network", hide_short_help = true)]
    pub plain: bool,
    /// Carry the stream by TCP even where UDP passes
    #[arg(long, help_heading = "Network", hide_short_help = true)]
    pub no_udp: bool,
    #[command(flatten)]
    pub via: RemoteArgs,
    /// Print the outcome as a JSON object
    ///
    /// The object is printed on standard output, or on standard error if standard output carries the stream.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print errors only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// Messages with forward error correction
    #[default]
    Fec,
    /// Objects by RBUDP
    Rbudp,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Frames {
    /// Each message is one line
    Lines,
    /// Each message follows its length in four bytes, big-endian
    Prefixed,
    /// Every message has --object-size bytes
    Fixed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Late {
    /// Deliver late messages
    #[default]
    Deliver,
    /// Drop late messages
    Drop,
}
