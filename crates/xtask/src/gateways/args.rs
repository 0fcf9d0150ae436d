//! What is asked for.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::iperf::Way;
use super::site::Path;

/// Measures what programs get through gateways, beside direct connections on the same paths
#[derive(Debug, Parser)]
#[command(name = "cargo xtask gateways")]
pub(super) struct Args {
    /// What to measure
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "long,short,delays,near,keys,brief"
    )]
    pub(super) part: Vec<Part>,
    /// How often each is measured
    #[arg(long, default_value_t = 1)]
    pub(super) runs: u32,
    /// Seconds of a long measurement
    #[arg(long, default_value_t = 60)]
    pub(super) seconds: u32,
    /// Short connections in all
    #[arg(long, default_value_t = 100_000)]
    pub(super) count: u32,
    /// Pages cross plain
    #[arg(long)]
    pub(super) plain: bool,
    /// Slabs of this size
    #[arg(long, default_value = "8MiB")]
    pub(super) slab: String,
    /// The lighthaul to measure
    #[arg(long, default_value = "target/release/lighthaul", value_name = "FILE")]
    pub(super) lighthaul: PathBuf,
}

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Four streams over 1 Gb/s and 115 ms, without and with loss
    Long,
    /// The same for five seconds
    Short,
    /// The same over 25 to 175 ms
    Delays,
    /// One stream between two gateways on a plain pair
    Near,
    /// Single octets, there and back
    Keys,
    /// A thousand short connections a second
    Brief,
}

impl Part {
    /// Over which paths.
    pub(super) fn paths(self) -> Vec<Path> {
        match self {
            Self::Long => ["0", "0.01%", "1%"].map(|loss| Path::wan(115, loss)).into(),
            Self::Delays => [25, 75, 125, 175].map(|rtt| Path::wan(rtt, "0")).into(),
            Self::Near => vec![Path::near()],
            Self::Short | Self::Keys => vec![Path::wan(115, "0")],
            Self::Brief => vec![Path::wan(10, "0")],
        }
    }

    /// By which ways.
    pub(super) const fn ways(self) -> &'static [Way] {
        match self {
            Self::Near => &[Way::Gateways, Way::Direct("cubic")],
            Self::Long | Self::Short | Self::Delays | Self::Keys | Self::Brief => {
                &[Way::Gateways, Way::Direct("cubic"), Way::Direct("bbr")]
            }
        }
    }

    /// For how long.
    pub(super) fn seconds(self, args: &Args) -> u32 {
        match self {
            Self::Short => 5,
            Self::Near => args.seconds.min(10),
            Self::Long | Self::Delays | Self::Keys | Self::Brief => args.seconds,
        }
    }
}
