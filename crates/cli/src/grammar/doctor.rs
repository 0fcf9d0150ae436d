//! The grammar of `lighthaul doctor`.

use clap::Args;
use lighthaul_base::Rate;

use crate::grammar::output::Output;
use crate::grammar::reach::{Far, Through};

/// Find out what is in the way of a copy.
///
/// Looks, one after the other, at the name and its addresses, TCP, TLS, the daemon's key, whether this
/// user's key is allowed there, versions, clocks, UDP in both directions, the longest packet that passes,
/// and what both kernels grant. Each gets one line, with what to do about it.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul doctor far.example.org
  lighthaul doctor --rate 10Gb/s lh://far.example.org:4811/
  lighthaul doctor --gateway 127.0.0.1:1080 far.example.org
  lighthaul doctor --json far.example.org | jq -r 'select(.outcome != \"ok\").text'

The status is 0 if nothing fails, else that of the first failure: 10 for the network, 13 for a key,
2 for a version.")]
pub(crate) struct Doctor {
    /// HOST, HOST:PORT or `lh://HOST[:PORT]/`, where `lighthaul serve` should run
    pub(crate) host: String,
    /// Bits a second that the path is meant to carry [default: as measured]
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) through: Through,
    #[command(flatten)]
    pub(crate) far: Far,
}
