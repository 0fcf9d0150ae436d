//! Command line of the bench.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand};

/// Compares Lighthaul with its peers on equal lab paths, each alone, and prints medians.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
// fields: one for each option of the command
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) internal: Option<InternalCommand>,
    /// Measure only these paths: veth, veth-cut, 1g-10ms, 1g-50ms, 1g-100ms, 5g-115ms, ssh
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) path: Vec<String>,
    /// Measure only these packet losses: 0, 0.01%, 0.1% (buckets), 1%; with --keep also 0.001%
    #[arg(long, value_delimiter = ',', value_name = "LOSS")]
    pub(crate) loss: Vec<String>,
    /// Measure only this data: memory, 2GiB, 10000x10KB, 512MiB, 1GiB, 100MB, 8GiB, 10GiB, 20GiB-resumed
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) data: Vec<String>,
    /// Run only programs whose names start with one of these
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) tool: Vec<String>,
    /// Number of runs of each measurement, whose median is shown
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: u32,
    /// Time limit of a run in seconds; a run that is cut off counts with the bytes that arrived
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    pub(crate) limit: f64,
    /// Duration of a measurement from memory to memory, in seconds
    #[arg(long, default_value_t = 4.0)]
    pub(crate) seconds: f64,
    /// Run a smaller set once, in a few minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// List the measurements and the missing programs, and exit
    #[arg(long)]
    pub(crate) list: bool,
    /// Lighthaul binary to measure
    #[arg(long, default_value = "target/release/lighthaul", value_name = "FILE")]
    pub(crate) lighthaul: PathBuf,
    /// Directory to search for programs before PATH
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// Directory for the tables as text, Markdown and CSV
    #[arg(long, default_value = "target/bench", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Measure goodput against loss, and draw the figure goodput-loss in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "quick")]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) grid: GridArgs,
}

/// Options of the grid.
#[derive(Clone, Debug, Group)]
pub(crate) struct GridArgs {
    /// Compare auto with each protocol over a grid of paths, in simulation
    #[arg(long, conflicts_with_all = ["keep", "list"])]
    pub(crate) grid: bool,
    /// Emulate points of the grid with real programs, instead of simulating them
    #[arg(long, requires = "grid")]
    pub(crate) emulate: bool,
    /// Print the shares of auto and TCP in simulated contests; --quick omits paths of 1 Gb/s
    #[arg(long, conflicts_with_all = ["grid", "keep", "list"])]
    pub(crate) contests: bool,
    /// Starts of each contest, at different times of the competing flow
    #[arg(
        long,
        requires = "contests",
        default_value_t = 4,
        value_name = "NUMBER"
    )]
    pub(crate) phases: u32,
    /// Threads of the simulation
    #[arg(long, default_value_t = 2, value_name = "NUMBER")]
    pub(crate) jobs: usize,
    /// Directory with the plan of the grid, for its tables and pictures
    #[arg(
        long,
        requires = "grid",
        default_value = "bench/grid",
        value_name = "DIR"
    )]
    pub(crate) grid_dir: PathBuf,
}

/// Internal commands that the bench uses to start itself.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum InternalCommand {
    /// Measure a plan inside a lab
    #[command(hide = true)]
    Inside {
        /// Plan, as a JSON file
        plan: PathBuf,
    },
    /// Run one side of a trial and report its cost
    #[command(hide = true)]
    Side(Side),
}

/// Command line of one side of a trial.
#[derive(Clone, Debug, Group)]
pub(crate) struct Side {
    /// Print a line when this port accepts connections, such as tcp:4810
    #[arg(long)]
    pub(crate) ready: Option<String>,
    /// Write the output of the command to FILE.out and FILE.err
    #[arg(long, value_name = "FILE")]
    pub(crate) log: PathBuf,
    /// Pin the command to this core
    #[arg(long)]
    pub(crate) core: Option<usize>,
    /// Number of tasks that copy memory on that core
    #[arg(long, default_value_t = 0, requires = "core")]
    pub(crate) tasks: u32,
    /// Command to run
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}
