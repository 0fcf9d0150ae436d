//! Command line of the crash tests.

use std::path::PathBuf;

use clap::Parser;
use lighthaul_base::{Rate, Size};

/// Copies a tree over a lab path, kills one side at a random moment, checks the target, and runs
/// the same command again. Then cuts the power of disks that lighthaul writes to, and makes disks
/// fail.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask crash", max_term_width = 100)]
// fields: one for each option of the command
pub(crate) struct Args {
    /// Number of copies to kill
    #[arg(long, default_value_t = 200)]
    pub(crate) runs: u64,
    /// Start no further run after this many minutes
    #[arg(long, default_value_t = 30.0, value_name = "MINUTES")]
    pub(crate) minutes: f64,
    /// Seed of all random choices [default: random]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Number of files in the tree
    #[arg(long, default_value_t = 5000)]
    pub(crate) files: u64,
    /// Total size of the files
    #[arg(long, default_value = "2GiB")]
    pub(crate) size: Size,
    /// Rate of the path, of which the copy uses 95 %
    #[arg(long, default_value = "1Gb/s")]
    pub(crate) rate: Rate,
    /// Round-trip time of the path
    #[arg(long, default_value = "50ms")]
    pub(crate) rtt: String,
    /// Random packet loss of the path
    #[arg(long, default_value = "0.1%")]
    pub(crate) loss: String,
    /// Number of power cuts per scenario (keys, lists, copies, deletes, bookings), and of failing
    /// disks for some
    #[arg(long, default_value_t = 200)]
    pub(crate) cuts: u64,
    /// Cut no further power after this many minutes
    #[arg(long, default_value_t = 30.0, value_name = "MINUTES")]
    pub(crate) cut_minutes: f64,
    /// Run only these scenarios, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) only: Vec<String>,
    /// Program to test [default: the release build]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Cut power in this process, which has its own namespaces
    #[arg(long, hide = true)]
    pub(crate) in_sandbox: bool,
    /// Directory for all files, removed by the caller
    #[arg(long, hide = true)]
    pub(crate) within: Option<PathBuf>,
}
