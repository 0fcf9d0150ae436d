//! What can be asked for.

use std::path::PathBuf;

use clap::Parser;
use lighthaul_base::{Rate, Size};

/// Copies a tree over a lab path, kills one side at a random moment, checks what is there, and runs the
/// same command again. Then cuts the power of disks that lighthaul writes to, and makes them fail.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask crash", max_term_width = 100)]
pub(crate) struct Args {
    /// How many copies are killed
    #[arg(long, default_value_t = 200)]
    pub(crate) runs: u64,
    /// Begin no other run after so many minutes
    #[arg(long, default_value_t = 30.0, value_name = "MINUTES")]
    pub(crate) minutes: f64,
    /// Where all chance descends from [default: another one each time]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Files of the tree
    #[arg(long, default_value_t = 5000)]
    pub(crate) files: u64,
    /// Their bytes
    #[arg(long, default_value = "2GiB")]
    pub(crate) size: Size,
    /// Rate of the path, of which the copy takes 95 %
    #[arg(long, default_value = "1Gb/s")]
    pub(crate) rate: Rate,
    /// Round-trip time
    #[arg(long, default_value = "50ms")]
    pub(crate) rtt: String,
    /// Packets lost at random
    #[arg(long, default_value = "0.1%")]
    pub(crate) loss: String,
    /// Power cuts of each scenario: keys, lists, copies, deletes, bookings; and as many failing disks of some
    #[arg(long, default_value_t = 200)]
    pub(crate) cuts: u64,
    /// Stop cutting after so many minutes
    #[arg(long, default_value_t = 30.0, value_name = "MINUTES")]
    pub(crate) cut_minutes: f64,
    /// Cut these scenarios only, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) only: Vec<String>,
    /// The command to try [default: the release build]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Cut power in this process, which has namespaces of its own
    #[arg(long, hide = true)]
    pub(crate) in_sandbox: bool,
    /// The folder that somebody else will remove
    #[arg(long, hide = true)]
    pub(crate) within: Option<PathBuf>,
}
