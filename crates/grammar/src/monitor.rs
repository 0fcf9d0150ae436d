//! The grammar of `lighthaul monitor`.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lighthaul_base::{Rate, Size, duration};

use crate::output::OutputArgs;
use crate::time::positive;

/// Show the load of this host, and the paths to other hosts
///
/// It samples the counters of the kernel once per interval, without privileges: processors, disks, network and memory.
/// It also probes the paths that copies have used in the last day. Press q to quit. Without a terminal, it prints one
/// line per interval and probe. It stores both, and --history prints them.
#[derive(Args, Debug)]
#[command(after_long_help = MONITORS)]
pub struct Monitor {
    /// Time between two samples, from 100ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval, help_heading = "Selection")]
    pub interval: Duration,
    /// End after this many intervals [default: no end]
    #[arg(long, value_name = "N", help_heading = "Selection")]
    pub count: Option<NonZeroU64>,
    /// Print stored samples, as a table or with --json
    #[arg(long, conflicts_with_all = ["interval", "count", "no_store", "keep", "store_max"], help_heading = "Selection")]
    pub history: bool,
    /// With --history, begin this long ago [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = positive, requires = "history", help_heading = "Selection")]
    pub since: Option<Duration>,
    #[command(flatten)]
    pub probes: ProbeArgs,
    /// Print probes as test results of perfSONAR, one JSON object per line
    ///
    /// The shape is that of pScheduler's archives, for the tests rtt, latency, mtu and throughput. Samples are not
    /// printed.
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub perfsonar: bool,
    /// Serve Prometheus metrics, as on 127.0.0.1:9481
    #[arg(
        long,
        value_name = "ADDR",
        conflicts_with = "history",
        help_heading = "Output"
    )]
    pub metrics_listen: Option<SocketAddr>,
    /// Do not store samples
    #[arg(long, help_heading = "Output")]
    pub no_store: bool,
    /// Store samples in this database of `SQLite` [default: monitor.db]
    ///
    /// It is `$XDG_STATE_HOME/lighthaul/monitor.db` or `~/.local/state/lighthaul/monitor.db`, and
    /// `/var/lib/lighthaul/monitor.db` for root.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub store: Option<PathBuf>,
    /// Delete stored samples after this long
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = positive, help_heading = "Output")]
    pub keep: Duration,
    /// Maximum size of the database of samples
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "256MiB",
        help_heading = "Output"
    )]
    pub store_max: Size,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Probes of paths.
#[derive(Args, Debug)]
pub struct ProbeArgs {
    /// Probe the path to this daemon, too: HOST or HOST:PORT
    ///
    /// The daemon must be a known host. The option can be repeated.
    #[arg(long, value_name = "HOST", conflicts_with_all = ["history", "no_probe"], help_heading = "Network")]
    pub probe: Vec<String>,
    /// Do not probe any path
    #[arg(long, conflicts_with = "history", help_heading = "Network")]
    pub no_probe: bool,
    /// Time between two probes of a path, from 10s to 1d
    ///
    /// Each probe is a session with the daemon, with ten round trips and a hundred datagrams of 64 bytes. Every tenth
    /// probe also measures the longest packet and the rate. The time is longer if --probe-limit requires it.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = probe_interval, conflicts_with = "history", help_heading = "Network")]
    pub probe_interval: Duration,
    /// Budget of all probes together, in both directions
    ///
    /// A probe counts as 33 kB, and every tenth probe of a path as 2 MB. Most probes take less.
    #[arg(
        long,
        value_name = "RATE",
        default_value = "500kb/s",
        conflicts_with = "history",
        help_heading = "Network"
    )]
    pub probe_limit: Rate,
}

/// Parses the time between two samples.
fn interval(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse(text).map_err(|why| why.to_string())?;
    let is_valid = (INTERVAL_MIN..=INTERVAL_MAX).contains(&parsed);
    is_valid
        .then_some(parsed)
        .ok_or_else(|| "a duration from 100ms to 1h is required, as in 2s".to_owned())
}

/// Parses the time between two probes of a path.
fn probe_interval(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse(text).map_err(|why| why.to_string())?;
    let is_valid = (PROBE_INTERVAL_MIN..=PROBE_INTERVAL_MAX).contains(&parsed);
    is_valid
        .then_some(parsed)
        .ok_or_else(|| "a duration from 10s to 1d is required, as in 5m".to_owned())
}

/// Minimum time between two probes of a path.
const PROBE_INTERVAL_MIN: Duration = Duration::from_secs(10);
/// Maximum time between two probes of a path.
const PROBE_INTERVAL_MAX: Duration = Duration::from_hours(24);
/// Minimum time between two samples. The kernel counts the time of processors in ticks of 10 ms.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Maximum time between two samples.
const INTERVAL_MAX: Duration = Duration::from_hours(1);

const MONITORS: &str = "Examples:
  lighthaul monitor
  lighthaul monitor --interval 10s --count 6
  lighthaul monitor --json | jq .cpu
  lighthaul monitor --probe storage.example --probe-interval 5m
  lighthaul monitor --history --since 2d";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_outside_the_bounds_are_refused() {
        assert_eq!(interval("100ms"), Ok(INTERVAL_MIN));
        assert_eq!(interval("1h"), Ok(INTERVAL_MAX));
        for text in ["0", "99ms", "2h", "5", "soon"] {
            assert!(interval(text).unwrap_err().contains("as in"), "{text}");
        }
        assert_eq!(probe_interval("10s"), Ok(PROBE_INTERVAL_MIN));
        assert_eq!(probe_interval("1d"), Ok(PROBE_INTERVAL_MAX));
        for text in ["9s", "25h", "never"] {
            let why = probe_interval(text).unwrap_err();
            assert!(why.contains("as in"), "{text}");
        }
    }
}
