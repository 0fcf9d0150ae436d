//! The grammar of `lighthaul probe`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lighthaul_base::{Rate, Size, duration};

use crate::grammar::reach::{Far, Through};

/// Measure what a path and the hosts at its ends can do.
///
/// That is the network alone, with the copy into memory that every transfer needs, RBUDP itself, plain and
/// sealed, the other protocols, and the disks.
#[derive(Args, Debug)]
#[command(after_long_help = PROBES)]
pub(crate) struct Probe {
    /// `lh://HOST[:PORT]/` where `lighthaul serve` runs; leave it out to probe a disk alone
    pub(crate) host: Option<String>,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    pub(crate) what: Vec<What>,
    /// Bits a second on the wire [default: as fast as the hosts can; 100Gb/s for sabul, sabul-swift and vbtp]
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// Duration of each raw measurement, from 10ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration::parse)]
    pub(crate) time: Duration,
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

const PROBES: &str = "Examples:
  lighthaul probe lh://far.example.org/
  lighthaul probe --what sealed --rate 5Gb/s far.example.org
  lighthaul probe --disk /data";
