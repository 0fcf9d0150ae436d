//! File of the server that is written.
//!
//! Writes are pipelined: [`RemoteWriter::write`] waits only while much is on its way. A failed write fails all later
//! ones, and the commit. After the loss of the connection nothing is repeated, since the server removes a file without
//! its name.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::client::answer::Answer;
use crate::client::channel::Channel;
use crate::client::link::Link;
use crate::client::links::Links;
use crate::failure::{Failure, FailureKind};
use crate::message::{FileVersion, Message, PIECE_MAX};

/// Maximum number of bytes that are sent and not acknowledged.
const UNACKNOWLEDGED_MAX: usize = 16 << 20;

/// File that is open for writing. Without a commit, a new file leaves nothing.
#[derive(Debug)]
pub struct RemoteWriter {
    /// Keeps the session.
    _link: Arc<Link>,
    channel: Arc<Channel>,
    handle: u64,
    /// Version when the file was opened.
    version: FileVersion,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    size: u64,
    /// Writes without an answer, with their lengths in bytes.
    unacknowledged: VecDeque<(Arc<Answer>, usize)>,
    bytes: usize,
    failed: Option<Failure>,
}

impl Drop for RemoteWriter {
    fn drop(&mut self) {
        let handle = self.handle;
        self.channel.say(&Message::Close { handle });
    }
}

impl RemoteWriter {
    pub(super) fn create(
        files: &Links,
        path: &[u8],
        mode: Option<u32>,
        is_new: bool,
    ) -> Result<Self, Failure> {
        Self::open(files, |request| Message::Create {
            request,
            path: path.to_vec(),
            mode,
            is_new,
        })
    }

    pub(super) fn append(files: &Links, path: &[u8], size: Option<u64>) -> Result<Self, Failure> {
        Self::open(files, |request| Message::Append {
            request,
            path: path.to_vec(),
            size,
        })
    }

    fn open(files: &Links, make: impl FnOnce(u64) -> Message) -> Result<Self, Failure> {
        let link = files.link(Duration::ZERO)?;
        let channel = link.first();
        let (handle, answer) = channel.ask(make);
        let close = || channel.say(&Message::Close { handle });
        let version = answer.version().inspect_err(|_| close())?;
        let version = version.ok_or_else(no_version)?;
        let state = State {
            size: version.size,
            ..State::default()
        };
        Ok(Self {
            _link: link,
            channel,
            handle,
            version,
            state: Mutex::new(state),
        })
    }

    /// Returns the version of the file at the time of opening.
    pub const fn version(&self) -> FileVersion {
        self.version
    }

    /// Returns true if the connection is lost, so that all further writes fail.
    pub fn is_lost(&self) -> bool {
        self.channel.has_ended()
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.state().size
    }

    /// Writes `bytes` at `offset`. Before the first commit that may be anywhere, later only at the end.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        let mut state = self.state();
        let handle = self.handle;
        for (nth, piece) in bytes.chunks(PIECE_MAX).enumerate() {
            while state.bytes + piece.len() > UNACKNOWLEDGED_MAX {
                state.acknowledge();
            }
            state.check()?;
            let offset = offset + (nth * PIECE_MAX) as u64;
            let write = |request| Message::Write {
                request,
                handle,
                offset,
            };
            let (_, answer) = self.channel.ask_for(0, piece, write);
            state.unacknowledged.push_back((answer, piece.len()));
            state.bytes += piece.len();
            state.size = state.size.max(offset + piece.len() as u64);
        }
        // a failure is reported as early as it is known
        state.acknowledge_ended();
        state.check()
    }

    /// Changes the size, before the first commit.
    pub fn truncate(&self, size: u64) -> Result<(), Failure> {
        let mut state = self.state();
        state.check()?;
        let handle = self.handle;
        let truncate = |request| Message::Truncate {
            request,
            handle,
            size,
        };
        self.channel.ask(truncate).1.version()?;
        state.size = size;
        Ok(())
    }

    /// Makes all writes durable, and gives a new file its name. With a `digest`, the file must have that BLAKE3 hash.
    pub fn commit(&self, digest: Option<[u8; 32]>) -> Result<FileVersion, Failure> {
        let mut state = self.state();
        while !state.unacknowledged.is_empty() {
            state.acknowledge();
        }
        state.check()?;
        let (handle, size) = (self.handle, state.size);
        let commit = |request| Message::Commit {
            request,
            handle,
            size,
            digest,
        };
        let committed = self.channel.ask(commit).1.version();
        if let Err(failure) = &committed {
            state.failed.get_or_insert_with(|| failure.clone());
        }
        committed?.ok_or_else(no_version)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Waits for the answer to the first write.
    fn acknowledge(&mut self) {
        let Some((answer, len)) = self.unacknowledged.pop_front() else {
            return;
        };
        self.bytes -= len;
        if let Err(failure) = answer.wait().map(drop) {
            self.failed.get_or_insert(failure);
        }
    }

    /// Takes the answers that have arrived.
    fn acknowledge_ended(&mut self) {
        while self
            .unacknowledged
            .front()
            .is_some_and(|(answer, _)| answer.has_ended())
        {
            self.acknowledge();
        }
    }

    /// Fails if an earlier write did.
    fn check(&self) -> Result<(), Failure> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

fn no_version() -> Failure {
    Failure::new(FailureKind::Other, "the server sent no version")
}
