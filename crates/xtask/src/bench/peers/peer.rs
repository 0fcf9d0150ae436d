//! The shape that all programs have.

use std::io;

use super::super::case::Data;
use super::super::outcome::Own;
use super::super::plan::{Tools, Trial};

/// A program that moves bytes from one host to another.
pub(crate) trait Peer {
    /// How it is called in flags and tables.
    fn name(&self) -> &'static str;

    /// Whether it can be run here; if not, what would bring it.
    fn available(&self, tools: &Tools) -> Result<(), String>;

    /// Whether it moves such data at all.
    fn moves(&self, data: Data) -> bool;

    /// The congestion control it is to send by, if not the host's default.
    fn control(&self) -> Option<&'static str> {
        None
    }

    /// Its far side, which must not be there yet.
    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service>;

    /// The words of its near side, which sends.
    fn send(&self, trial: &Trial<'_>) -> Vec<String>;

    /// Whether it leaves no files, whatever the data.
    fn is_memory_only(&self) -> bool {
        false
    }

    /// What it moved; by default, what is in the target folder, in the time of the command.
    fn moved(&self, _trial: &Trial<'_>, told: &Told) -> Result<Moved, String> {
        Ok(Moved {
            bytes: told.arrived,
            seconds: told.seconds,
            own: None,
        })
    }
}

/// A far side.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) words: Vec<String>,
    /// What it listens on when it is ready, as in `tcp:4810`.
    pub(crate) ready: &'static str,
    /// Whether it ends after one transfer, with something to say.
    pub(crate) ends_alone: bool,
}

/// What both sides said, and what was seen of them.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Standard output of the near side.
    pub(crate) near: String,
    /// Standard output of the far side.
    pub(crate) far: String,
    /// The time of the near side's command, or the limit.
    pub(crate) seconds: f64,
    /// Bytes in the target folder.
    pub(crate) arrived: u64,
    /// It was cut off at the limit.
    pub(crate) is_cut: bool,
}

/// What was moved in which time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) own: Option<Own>,
}

/// What is missing if none of `programs` may be.
pub(crate) fn need(tools: &Tools, programs: &[&str], source: &str) -> Result<(), String> {
    let missing = programs
        .iter()
        .find(|program| tools.find(program).is_none());
    missing.map_or(Ok(()), |program| Err(format!("no {program}; {source}")))
}

/// The bytes that so many bits a second move in `seconds`.
#[expect(
    clippy::cast_sign_loss,
    reason = "neither rates nor times are negative"
)]
pub(super) fn bytes_in(bps: f64, seconds: f64) -> u64 {
    (bps * seconds / 8.0) as u64
}
