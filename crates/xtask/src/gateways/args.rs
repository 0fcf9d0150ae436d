//! Command line of the gateway measurements.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::path::Path;
use super::route::Route;

/// Measures programs through gateways, compared with direct connections on the same paths
#[derive(Debug, Parser)]
#[command(name = "cargo xtask gateways")]
pub(super) struct Args {
    /// Measurements to run
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "long,short,delays,near,keys,brief"
    )]
    pub(super) part: Vec<Measurement>,
    /// Number of runs of each measurement (courses run once)
    #[arg(long, default_value_t = 1)]
    pub(super) runs: u32,
    /// Duration of a long measurement in seconds [default: 60; lengths and courses 120, edges 20]
    #[arg(long)]
    pub(super) seconds: Option<u32>,
    /// Total number of short connections
    #[arg(long, default_value_t = 100_000)]
    pub(super) count: u32,
    /// Send pages without encryption
    #[arg(long)]
    pub(super) plain: bool,
    /// Size of a slab
    #[arg(long, default_value = "8MiB")]
    pub(super) slab: String,
    /// Write figures into this directory, which has their plans
    #[arg(long, value_name = "FOLDER")]
    pub(super) keep: Option<PathBuf>,
    /// Lighthaul binary to measure
    #[arg(long, default_value = "target/release/lighthaul", value_name = "FILE")]
    pub(super) lighthaul: PathBuf,
}

/// Measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Measurement {
    /// Four streams over 1 Gb/s and 115 ms, with and without loss
    Long,
    /// Four streams over 1 Gb/s and 115 ms, for five seconds
    Short,
    /// Four streams over 1 Gb/s and 25 to 175 ms
    Delays,
    /// One stream between two gateways on a veth pair
    Near,
    /// Round-trip times of single octets
    Keys,
    /// A thousand short connections per second
    Brief,
    /// Four streams of iperf3 and of `GridFTP` over 1 Gb/s and 115 ms, after 2 to 120 seconds
    Lengths,
    /// Four streams of `GridFTP` over 25 to 175 ms, in steps of two seconds
    Courses,
    /// Four streams over 1 Gb/s and 115 ms, with loss on the edges or between the gateways
    Edges,
}

impl Measurement {
    /// Returns the paths.
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

    /// Returns the routes of the streams.
    pub(super) const fn routes(self) -> &'static [Route] {
        match self {
            Self::Near => &[Route::Gateways("cubic"), Route::Direct("cubic")],
            Self::Edges => &[
                Route::Gateways("cubic"),
                Route::Gateways("bbr"),
                Route::Direct("cubic"),
                Route::Direct("bbr"),
            ],
            Self::Long
            | Self::Short
            | Self::Delays
            | Self::Keys
            | Self::Brief
            | Self::Lengths
            | Self::Courses => &[
                Route::Gateways("cubic"),
                Route::Direct("cubic"),
                Route::Direct("bbr"),
            ],
        }
    }

    /// Returns the duration in seconds.
    pub(super) fn seconds(self, args: &Args) -> u32 {
        let or = |seconds| args.seconds.unwrap_or(seconds);
        match self {
            Self::Short => 5,
            Self::Near => or(60).min(10),
            Self::Long | Self::Delays | Self::Keys | Self::Brief => or(60),
            Self::Lengths | Self::Courses => or(120),
            Self::Edges => or(20),
        }
    }

    /// Returns the name of the figure, if the measurement has one.
    pub(super) const fn figure(self) -> Option<&'static str> {
        match self {
            Self::Lengths => Some("gateway-lengths"),
            Self::Courses => Some("gateway-courses"),
            Self::Edges => Some("gateway-edges"),
            Self::Long | Self::Short | Self::Delays | Self::Near | Self::Keys | Self::Brief => None,
        }
    }
}
