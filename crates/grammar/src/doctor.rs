//! The grammar of `lighthaul doctor`.

use clap::Args;
use lighthaul_base::Rate;

use crate::output::OutputArgs;
use crate::reach::RemoteArgs;

/// Find out what prevents or slows a copy
///
/// It checks the name and its addresses, TCP, TLS, the daemon's key, and the rights of this user's key. Then it checks
/// versions, clocks, UDP in both directions, the largest packet, the limits of both kernels, and the settings of both
/// network interfaces. Each check gets one line, with the remedy if it fails.
///
/// For `HOST:PATH`, it checks the configuration of ssh and the login, and if the data goes directly or through ssh.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul doctor far.example.org
  lighthaul doctor --rate 10Gb/s lh://far.example.org:4811/
  lighthaul doctor alice@far.example.org:
  lighthaul doctor --gateway 127.0.0.1:1080 far.example.org
  lighthaul doctor --json far.example.org | jq -r 'select(.outcome != \"ok\").text'

The exit status is 0 if no check fails, else that of the first failure: 10 for
the network, 13 for a key, 2 for a version.")]
pub struct Doctor {
    /// HOST or HOST:PORT of a daemon; for ssh HOST:, USER@HOST or an alias
    pub host: String,
    /// Rate that the path should carry [default: measured]
    #[arg(long, help_heading = "Network")]
    pub rate: Option<Rate>,
    #[command(flatten)]
    pub via: RemoteArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
