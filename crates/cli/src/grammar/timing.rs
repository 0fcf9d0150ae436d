//! Options for the time at which a copy runs, and for failures.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use lighthaul_base::{ParseTimetableError, Timetable};

use crate::grammar::time::{Time, positive};

/// When a copy runs, and what is done when it is stopped.
#[derive(Args, Clone, Debug)]
pub(crate) struct Later {
    /// Limit the rate, as rclone writes it: 10M, or by the clock: '08:00,100Mbit 18:00,off'
    #[arg(long, value_name = "TIMETABLE", env = "LIGHTHAUL_LIMIT")]
    pub(crate) limit: Option<Limit>,
    /// Go on so many times after the network failed while files were moving
    #[arg(long, value_name = "N", default_value_t = 5, env = "LIGHTHAUL_RETRIES")]
    pub(crate) retries: u32,
    /// Give the far side up that says nothing for so long [default: 20s]
    #[arg(long, value_name = "DURATION", env = "LIGHTHAUL_STALL_TIMEOUT", value_parser = positive)]
    pub(crate) stall_timeout: Option<Duration>,
    /// Stop at this local time, as in 18:30 or 2031-05-01T06:00; the same command goes on later
    #[arg(long, value_name = "TIME")]
    pub(crate) stop_at: Option<Time>,
    /// With --book, have all there, checked and synced, by this local time, or hear what could be had instead
    #[arg(long, value_name = "TIME", visible_alias = "by", requires = "book")]
    pub(crate) deadline: Option<Time>,
    /// Write what failed to FILE, for --files-from of the same command to read
    #[arg(long, value_name = "FILE")]
    pub(crate) failures: Option<PathBuf>,
}

/// A timetable, and how it was written.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) text: String,
    pub(crate) table: Timetable,
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
