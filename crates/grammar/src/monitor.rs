//! The grammar of `lighthaul monitor`.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lighthaul_base::{Size, duration};

use crate::output::OutputArgs;
use crate::time::positive;

/// Show the load of this host: processors, disks, network, memory
///
/// The command samples the counters of the kernel once per interval, and needs no privileges. On a terminal it draws a
/// screen until q is pressed; elsewhere it prints one line per interval. It stores the samples; --history prints them.
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
    /// Do not store samples
    #[arg(long, help_heading = "Output")]
    pub no_store: bool,
    /// Store samples in this `SQLite` file
    ///
    /// The default is `$XDG_STATE_HOME/lighthaul/monitor.db` or `~/.local/state/lighthaul/monitor.db`, and
    /// `/var/lib/lighthaul/monitor.db` for root.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub store: Option<PathBuf>,
    /// Drop stored samples after this long
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = positive, help_heading = "Output")]
    pub keep: Duration,
    /// Drop the oldest samples of a larger file
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

/// Parses the time between two samples.
fn interval(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse(text).map_err(|why| why.to_string())?;
    let is_valid = (INTERVAL_MIN..=INTERVAL_MAX).contains(&parsed);
    is_valid
        .then_some(parsed)
        .ok_or_else(|| "a duration from 100ms to 1h is required, as in 2s".to_owned())
}

/// Bounds of the time between two samples. The kernel counts the time of processors in ticks of 10 ms.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_hours(1);

const MONITORS: &str = "Examples:
  lighthaul monitor
  lighthaul monitor --interval 10s --count 6
  lighthaul monitor --json | jq .cpu
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
    }
}
