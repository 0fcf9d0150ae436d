//! Events of a copy for an observer, such as the command or a client of a daemon.
//!
//! A [`Watcher`] receives each [`CopyEvent`] in order: the start, progress, files, warnings and
//! failures. The [`Summary`] follows as the result of the copy. A relay sends events to its client,
//! so all are messages with limits on texts and lists. Sizes are in bytes, rates in bits per
//! second, and waits in nanoseconds.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use lighthaul_files::hash::FileHashes;
use lighthaul_files::manifest::PATH_SHOWN_MAX;
use lighthaul_files::options::Planned;
use lighthaul_io::control::bounded;
use lighthaul_session::error::Code;
use lighthaul_session::peer_text;
use lighthaul_session::topic::ITEMS_MAX;
use serde::{Deserialize, Serialize};

use crate::message::Failure;

/// Maximum number of files that are shown as moving.
pub(crate) const CURRENT_MAX: usize = 4;

/// Event of a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CopyEvent {
    /// The path was explored, and the data begin to move.
    Started(Start),
    /// Progress, about twenty times a second.
    Moving(CopyProgress),
    /// Files that move now, a few times a second.
    Current(#[serde(deserialize_with = "bounded::list::<CURRENT_MAX, _, _>")] Vec<CurrentFile>),
    /// A pass of the protocol began.
    Round {
        /// Number of the pass, from 1.
        number: u16,
        /// Packets of the pass.
        packets: u64,
    },
    /// Datagrams do not pass, so TCP carries the data, for the given reason.
    Diverted(#[serde(deserialize_with = "peer_text::read")] String),
    /// Protocol that was chosen for the path, and the reason.
    Chosen(
        #[serde(deserialize_with = "peer_text::read")] String,
        #[serde(deserialize_with = "peer_text::read")] String,
    ),
    /// Warning.
    Warning(#[serde(deserialize_with = "peer_text::read")] String),
    /// Hashes of a file.
    Hashed(FileHashes),
    /// Action of a dry run.
    Planned(Planned),
    /// Entry that was changed, if each is reported.
    Done(Planned),
    /// Paths that the source does not have, and that were removed at the target.
    Removed(
        #[serde(deserialize_with = "bounded::rows::<ITEMS_MAX, PATH_SHOWN_MAX, _>")] Vec<Vec<u8>>,
    ),
    /// Entry that cannot be copied or removed.
    Failed(Failed),
    /// Change of the rate during the copy, with the reason.
    Changed(#[serde(deserialize_with = "peer_text::read")] String),
    /// All data have left the circuit, which may be given to another copy. Files may not be in place yet.
    CircuitReleased,
}

/// Parameters of a copy when the data begin to move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Name of the protocol.
    #[serde(deserialize_with = "peer_text::read")]
    pub protocol: String,
    /// Rate on the wire, in bits a second; none if TCP determines it.
    pub rate_bps: Option<u64>,
    /// Bytes of an object in each packet.
    pub packet_len: u32,
    /// Cipher, or "plain".
    #[serde(deserialize_with = "peer_text::read")]
    pub cipher: String,
    /// Kind of the digest that both sides compare, or "none".
    #[serde(deserialize_with = "peer_text::read")]
    pub digest: String,
    /// Time from the start of the copy.
    pub start_up: Duration,
}

/// File that moves now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentFile {
    /// Path at the source or target, as far as it is shown.
    #[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Bytes that have moved, roughly.
    pub done: u64,
    /// Size in bytes.
    pub size: u64,
}

impl CurrentFile {
    /// Creates the value for the file at `path`, of which `done` of `size` bytes have moved.
    pub fn new(path: &Path, done: u64, size: u64) -> Self {
        let path = path.as_os_str().as_bytes();
        Self {
            path: path[..path.len().min(PATH_SHOWN_MAX)].to_vec(),
            done,
            size,
        }
    }
}

/// Progress of a copy.
// fields: counters of one report
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopyProgress {
    /// Bytes that have arrived.
    pub done: u64,
    /// Bytes requested so far.
    pub total: u64,
    /// Number of the pass.
    pub round: u16,
    /// Packets sent, with repetitions.
    pub sent: u64,
    /// Packets sent again.
    pub resent: u64,
    /// Datagrams that the kernel dropped because a receive buffer was full.
    pub buffer_drops: u64,
    /// Datagrams of other connections, or not authentic.
    pub foreign: u64,
    /// True if the receiver asks the sender to wait for its disk.
    pub held: bool,
    /// Entries that this transfer has put in place.
    pub published: u64,
    /// Lanes that have moved data.
    pub lanes: u8,
    /// Time that lanes have waited for the source disk, in nanoseconds, summed.
    pub source_wait: u64,
    /// Time that lanes have waited for the target disk, in nanoseconds, summed.
    pub target_wait: u64,
    /// Time in which lanes had an object, in nanoseconds, summed.
    pub object_time: u64,
    /// Changed files that were sent as deltas.
    pub delta: DeltaTotals,
}

impl CopyProgress {
    /// Returns the packets that were sent again, in percent of the packets sent first.
    pub fn resent_percent(&self) -> f64 {
        let first = self.sent.saturating_sub(self.resent).max(1);
        self.resent as f64 * 100.0 / first as f64
    }
}

/// Result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Files, directories and links in place.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Entries that were in place before.
    pub unchanged: u64,
    /// Time from the start of the copy to its end.
    pub elapsed: Duration,
    /// Time from the first byte of data to the result.
    pub moving: Duration,
    /// Progress at the end.
    pub motion: CopyProgress,
    /// Number of files whose checksums were not compared. Above zero only in copies with object stores.
    #[serde(skip)]
    pub unproven: u64,
    /// Entries that failed.
    #[serde(deserialize_with = "bounded::list::<ITEMS_MAX, _, _>")]
    pub failures: Vec<Failed>,
}

/// Changed files that were sent as deltas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaTotals {
    /// Number of files, in each attempt of the copy.
    pub files: u64,
    /// Bytes that the target copied from old versions of the files.
    pub copied: u64,
    /// Bytes that were sent.
    pub sent: u64,
}

/// Entry that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Path; empty for an error that concerns several entries.
    #[serde(deserialize_with = "bounded::list::<PATH_SHOWN_MAX, _, _>")]
    pub path: Vec<u8>,
    /// Exit status.
    pub code: u8,
    /// Reason of the failure.
    #[serde(deserialize_with = "peer_text::read_reason")]
    pub why: String,
}

impl DeltaTotals {
    /// Counts a stretch: bytes that the old version has, and bytes that are sent.
    pub const fn add(&mut self, copied: u64, sent: u64) {
        self.copied = self.copied.saturating_add(copied);
        self.sent = self.sent.saturating_add(sent);
    }

    /// Adds the deltas of another attempt.
    #[must_use]
    pub const fn and(mut self, other: Self) -> Self {
        self.files = self.files.saturating_add(other.files);
        self.add(other.copied, other.sent);
        self
    }

    /// Counts copied bytes that differed, and are sent.
    pub const fn differ(&mut self, bytes: u64) {
        self.copied = self.copied.saturating_sub(bytes);
        self.sent = self.sent.saturating_add(bytes);
    }
}

impl From<Failure> for Failed {
    /// Converts a failure that the peer reports. An unknown exit status counts as a protocol error.
    fn from(failure: Failure) -> Self {
        Self {
            path: failure.path,
            code: Code::from_number(failure.code) as u8,
            why: failure.why,
        }
    }
}

/// Observer of a copy.
pub type Watcher<'a> = &'a mut dyn FnMut(CopyEvent);
