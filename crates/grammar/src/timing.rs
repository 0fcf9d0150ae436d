//! Options for the time at which a copy runs, and for failures.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use lighthaul_base::{ParseTimetableError, Timetable};

use crate::time::{Time, positive};

/// Options of a copy for its rate over time, for failures and for its end.
#[derive(Args, Clone, Debug)]
pub struct TimingArgs {
    /// Rate limit: 12MB/s, 100Mb/s or '08:00,1G 18:00,off'
    ///
    /// Timetables are written as for rclone's --bwlimit. A bare 10M is 10 MiB/s, as in rsync and rclone.
    #[arg(
        long,
        value_name = "TIMETABLE",
        env = "LIGHTHAUL_LIMIT",
        help_heading = "Network"
    )]
    pub limit: Option<Limit>,
    /// Retries after a network failure while files move
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        env = "LIGHTHAUL_RETRIES",
        help_heading = "Network",
        hide_short_help = true
    )]
    pub retries: u32,
    /// Abort after this long without a response [default: 20s]
    #[arg(
        long,
        value_name = "DURATION",
        env = "LIGHTHAUL_STALL_TIMEOUT",
        value_parser = positive,
        help_heading = "Network",
        hide_short_help = true
    )]
    pub stall_timeout: Option<Duration>,
    /// Refuse redirects of web servers, for `https://` sources
    ///
    /// Without it, up to 10 redirects are followed, but none from https:// to http://.
    #[arg(long, help_heading = "Network", hide_short_help = true)]
    pub no_redirects: bool,
    /// Stop at this local time, as in 18:30 or 2031-05-01T06:00
    ///
    /// The same command resumes the copy later.
    #[arg(
        long,
        value_name = "TIME",
        help_heading = "Advanced",
        hide_short_help = true
    )]
    pub stop_at: Option<Time>,
    /// With --book, finish by this time
    ///
    /// It is local time, as in 18:00 or 2031-05-01T06:00, or has a UTC offset.
    ///
    /// All files are then complete, verified and on disk. If that is not possible, nothing is booked, and the copy
    /// fails with a counter-offer.
    #[arg(
        long,
        value_name = "TIME",
        visible_alias = "by",
        requires = "book",
        help_heading = "Booking"
    )]
    pub deadline: Option<Time>,
    /// Write failed paths to FILE, to retry with --files-from
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Output",
        hide_short_help = true
    )]
    pub failures: Option<PathBuf>,
}

/// Timetable of rate limits, and its text.
#[derive(Clone, Debug)]
pub struct Limit {
    pub text: String,
    pub table: Timetable,
}

impl FromStr for Limit {
    type Err = ParseTimetableError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let table = text.parse()?;
        Ok(Self {
            text: text.to_owned(),
            table,
        })
    }
}
