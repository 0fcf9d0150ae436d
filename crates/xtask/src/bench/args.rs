//! What the bench can be asked for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand};

/// Runs Lighthaul and its peers side by side on the same lab paths, each alone, and prints medians.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
    /// Only these paths: veth, veth-cut, 1g-10ms, 1g-100ms, 5g-115ms
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) path: Vec<String>,
    /// Only these losses: 0, 0.01%, 1%
    #[arg(long, value_delimiter = ',', value_name = "LOSS")]
    pub(crate) loss: Vec<String>,
    /// Only this data: memory, 2GiB, 10000x10KB, 1GiB, 100MB, 8GiB
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) data: Vec<String>,
    /// Only programs whose names begin with one of these
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) tool: Vec<String>,
    /// How often each is measured; the table has medians
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: u32,
    /// Seconds after which a run is cut off and counts with what it moved until then
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    pub(crate) limit: f64,
    /// Seconds of a measurement from memory to memory
    #[arg(long, default_value_t = 4.0)]
    pub(crate) seconds: f64,
    /// One run of a smaller set, in a few minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// List what would be measured, and what is missing, and stop
    #[arg(long)]
    pub(crate) list: bool,
    /// The lighthaul to measure
    #[arg(long, default_value = "target/release/lighthaul", value_name = "FILE")]
    pub(crate) lighthaul: PathBuf,
    /// Another folder to look for programs in, before PATH
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// Where the tables go as text, Markdown and CSV
    #[arg(long, default_value = "target/bench", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// What the bench starts itself as.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Part {
    /// Measure what a plan asks for, inside a lab
    #[command(hide = true)]
    Inside {
        /// The plan, as JSON
        plan: PathBuf,
    },
    /// Run one side of a trial and say what it cost
    #[command(hide = true)]
    Side(Side),
}

/// One side of a trial.
#[derive(Clone, Debug, Group)]
pub(crate) struct Side {
    /// Say so when this port is listened on, as in tcp:4810
    #[arg(long)]
    pub(crate) ready: Option<String>,
    /// Where what it says goes: FILE.out and FILE.err
    #[arg(long, value_name = "FILE")]
    pub(crate) log: PathBuf,
    /// Keep it to this core
    #[arg(long)]
    pub(crate) core: Option<usize>,
    /// Beside so many tasks there that copy memory
    #[arg(long, default_value_t = 0, requires = "core")]
    pub(crate) tasks: u32,
    /// The command
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}
