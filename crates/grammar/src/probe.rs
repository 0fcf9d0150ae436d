//! The grammar of `lighthaul probe`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lighthaul_base::{Rate, Size, duration};

use crate::output::OutputArgs;
use crate::reach::{DaemonArgs, GatewayArgs};

/// Measure the network path, the protocols and the disks
///
/// It measures the network alone, and with one copy into memory, which every transfer needs. Then it measures RBUDP
/// with and without encryption, the other protocols, and disks.
#[derive(Args, Debug)]
#[command(after_long_help = PROBES)]
pub struct Probe {
    /// `HOST[:PORT]` of a daemon; not needed with --disk
    pub host: Option<String>,
    /// Measurements, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "all",
        help_heading = "Selection"
    )]
    pub what: Vec<What>,
    /// Measure writing and reading in this local directory
    #[arg(long, value_name = "DIR", help_heading = "Selection")]
    pub disk: Option<PathBuf>,
    /// Duration of a network measurement
    ///
    /// It is between 10ms and 1h.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration::parse, help_heading = "Selection")]
    pub time: Duration,
    /// Bytes to move or to write
    ///
    /// A protocol moves one object, of about 11 GB at most.
    #[arg(long, default_value = "2GiB", help_heading = "Selection")]
    pub size: Size,
    /// Rate on the wire [default: as fast as possible]
    ///
    /// For sabul, sabul-swift and vbtp, that is 100Gb/s.
    #[arg(long, help_heading = "Network")]
    pub rate: Option<Rate>,
    #[command(flatten)]
    pub through: GatewayArgs,
    #[command(flatten)]
    pub far: DaemonArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// All measurements
    All,
    /// Network alone: batches sent, received and dropped
    Network,
    /// Network and one copy into memory: the bound for every protocol
    Copy,
    /// RBUDP; the receiver drops the data
    Fake,
    /// RBUDP; the receiver copies each packet to its place
    Place,
    /// RBUDP; the receiver predicts the place of each packet
    Scatter,
    /// Same as place, but with encryption
    Sealed,
    /// Same as scatter, but with encryption
    SealedScatter,
    /// Same as place, but with RBUDP+
    Plus,
    /// SABUL with the rate control of its paper
    Sabul,
    /// SABUL with the rate control of this project
    SabulSwift,
    /// VBTP on a circuit with the rate of --rate
    Vbtp,
    /// One TCP connection with encryption
    Tcp,
    /// Several TCP connections with encryption
    Ptcp,
}

const PROBES: &str = "Examples:
  lighthaul probe lh://far.example.org/
  lighthaul probe --what sealed --rate 5Gb/s far.example.org
  lighthaul probe --disk /data";
