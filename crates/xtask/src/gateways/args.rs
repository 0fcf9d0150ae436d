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
    /// How often each is measured; courses once
    #[arg(long, default_value_t = 1)]
    pub(super) runs: u32,
    /// Seconds of a long measurement [default: 60; of lengths 120, of courses 30, of edges 20]
    #[arg(long)]
    pub(super) seconds: Option<u32>,
    /// Short connections in all
    #[arg(long, default_value_t = 100_000)]
    pub(super) count: u32,
    /// Pages cross plain
    #[arg(long)]
    pub(super) plain: bool,
    /// Slabs of this size
    #[arg(long, default_value = "8MiB")]
    pub(super) slab: String,
    /// Keep the figures of parts that have one in this folder, where their plans are
    #[arg(long, value_name = "FOLDER")]
    pub(super) keep: Option<PathBuf>,
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
    /// Four streams of iperf3 and of `GridFTP` over 1 Gb/s and 115 ms, after 2 to 120 seconds
    Lengths,
    /// Four streams of `GridFTP` over 25 to 175 ms, every two seconds
    Courses,
    /// Four streams over 1 Gb/s and 115 ms, with losses on the edges or between the gateways
    Edges,
}

impl Part {
    /// Over which paths.
    pub(super) fn paths(self) -> Vec<Path> {
        match self {
            Self::Long => ["0", "0.01%", "1%"].map(|loss| Path::wan(115, loss)).into(),
            Self::Delays | Self::Courses => {
                [25, 75, 125, 175].map(|rtt| Path::wan(rtt, "0")).into()
            }
            Self::Near => vec![Path::near(), Path::streamed()],
            Self::Short | Self::Keys | Self::Lengths => vec![Path::wan(115, "0")],
            Self::Brief => vec![Path::wan(10, "0")],
            Self::Edges => ["0.01%", "0.1%", "1%"]
                .into_iter()
                .flat_map(|loss| [Path::edges(115, loss), Path::wan(115, loss)])
                .collect(),
        }
    }

    /// By which ways.
    pub(super) const fn ways(self) -> &'static [Way] {
        match self {
            Self::Near => &[Way::Gateways("cubic"), Way::Direct("cubic")],
            Self::Edges => &[
                Way::Gateways("cubic"),
                Way::Gateways("bbr"),
                Way::Direct("cubic"),
                Way::Direct("bbr"),
            ],
            Self::Long
            | Self::Short
            | Self::Delays
            | Self::Keys
            | Self::Brief
            | Self::Lengths
            | Self::Courses => &[
                Way::Gateways("cubic"),
                Way::Direct("cubic"),
                Way::Direct("bbr"),
            ],
        }
    }

    /// For how long.
    pub(super) fn seconds(self, args: &Args) -> u32 {
        let or = |seconds| args.seconds.unwrap_or(seconds);
        match self {
            Self::Short => 5,
            Self::Near => or(60).min(10),
            Self::Long | Self::Delays | Self::Keys | Self::Brief => or(60),
            Self::Lengths => or(120),
            Self::Courses => or(30),
            Self::Edges => or(20),
        }
    }

    /// What its figure is called, if it has one.
    pub(super) const fn figure(self) -> Option<&'static str> {
        match self {
            Self::Lengths => Some("gateway-lengths"),
            Self::Courses => Some("gateway-courses"),
            Self::Edges => Some("gateway-edges"),
            Self::Long | Self::Short | Self::Delays | Self::Near | Self::Keys | Self::Brief => None,
        }
    }
}
