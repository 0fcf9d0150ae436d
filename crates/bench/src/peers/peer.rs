//! Interface of all programs.

use std::io;

use super::super::case::Data;
use super::super::outcome::LighthaulReport;
use super::super::plan::{Tools, Trial};

/// Program that transfers bytes between two hosts.
pub(crate) trait Peer {
    /// Returns the name in flags and tables.
    fn name(&self) -> &'static str;

    /// Fails with advice on installation if the program cannot run here.
    fn available(&self, tools: &Tools) -> Result<(), String>;

    /// Reports whether the program can transfer data of this type.
    fn moves(&self, data: Data) -> bool;

    /// Returns the congestion control to use; `None` for the default of the host.
    fn control(&self) -> Option<&'static str> {
        None
    }

    /// Prepares the far side, which is not running yet.
    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service>;

    /// Returns the command of the near side, which sends.
    fn send(&self, trial: &Trial<'_>) -> Vec<String>;

    /// Reports whether the program writes no files.
    fn is_memory_only(&self) -> bool {
        false
    }

    /// Returns the bytes transferred and the time. By default, these are the bytes in the target
    /// directory and the command's duration.
    fn moved(&self, _trial: &Trial<'_>, output: &TrialOutput) -> Result<Moved, String> {
        Ok(Moved {
            bytes: output.arrived,
            seconds: output.seconds,
            report: None,
        })
    }
}

/// Far side of a trial.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) words: Vec<String>,
    /// Port that accepts connections when it is ready, such as `tcp:4810`.
    pub(crate) ready: &'static str,
    /// True if the side exits after one transfer, with a report.
    pub(crate) ends_alone: bool,
}

/// Output of both sides, with measurements.
#[derive(Clone, Debug)]
pub(crate) struct TrialOutput {
    /// Standard output of the near side.
    pub(crate) near: String,
    /// Standard output of the far side.
    pub(crate) far: String,
    /// Duration of the near side's command in seconds, or the time limit.
    pub(crate) seconds: f64,
    /// Allocated bytes in the target directory.
    pub(crate) arrived: u64,
    /// True if the run was cut off at the time limit.
    pub(crate) is_cut: bool,
}

/// Bytes transferred, and duration of the transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) report: Option<LighthaulReport>,
}

/// Fails if one of `programs` is missing; `source` says where to get them.
pub(crate) fn need(tools: &Tools, programs: &[&str], source: &str) -> Result<(), String> {
    let missing = programs
        .iter()
        .find(|program| tools.find(program).is_none());
    missing.map_or(Ok(()), |program| Err(format!("no {program}; {source}")))
}

/// Returns the bytes that `bps` bits per second transfer in `seconds`.
#[expect(
    clippy::cast_sign_loss,
    reason = "neither rates nor times are negative"
)]
pub(super) fn bytes_in(bps: f64, seconds: f64) -> u64 {
    (bps * seconds / 8.0) as u64
}
