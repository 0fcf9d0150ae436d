//! File of the server that is written.
//!
//! Writes are pipelined: [`RemoteWriter::write`] waits only while much is on its way. A failed write fails all later
//! ones, and the commit. After the loss of the connection nothing is repeated, since the server removes a file without
//! its name. Bytes that are written in their order are hashed, and the server compares what it has with their digest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_io::host::cancellation::Cancellation;

use crate::client::answer::Answer;
use crate::client::channel::Channel;
use crate::client::link::Link;
use crate::client::links::Links;
use crate::client::patience::patiently;
use crate::failure::{Failure, FailureKind};
use crate::message::{FileVersion, Message, PIECE_MAX, RangeDigest};

/// Maximum number of bytes that are sent and not acknowledged.
const UNACKNOWLEDGED_MAX: usize = 16 << 20;

/// File that is open for writing. Without a commit, a new file leaves nothing.
#[derive(Debug)]
pub struct RemoteWriter {
    /// Keeps the session.
    _link: Arc<Link>,
    channel: Arc<Channel>,
    handle: u64,
    path: Vec<u8>,
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
    /// Digest of the bytes since the last commit, unless they were written out of their order.
    digest: Option<RunningDigest>,
    /// True while the file has no name: without a commit, nothing remains of it.
    is_unnamed: bool,
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
        let create = |request| Message::Create {
            request,
            path: path.to_vec(),
            mode,
            is_new,
        };
        Self::open(files, (path, true), create)
    }

    pub(super) fn append(files: &Links, path: &[u8], size: Option<u64>) -> Result<Self, Failure> {
        let append = |request| Message::Append {
            request,
            path: path.to_vec(),
            size,
        };
        Self::open(files, (path, false), append)
    }

    fn open(
        files: &Links,
        (path, is_unnamed): (&[u8], bool),
        make: impl FnOnce(u64) -> Message,
    ) -> Result<Self, Failure> {
        let link = files.link(Duration::ZERO)?;
        let channel = link.first();
        let (handle, answer) = channel.ask(make);
        let close = || channel.say(&Message::Close { handle });
        let version = answer.version().inspect_err(|_| close())?;
        let version = version.ok_or_else(no_version)?;
        let state = State {
            size: version.size,
            digest: Some(RunningDigest::new(version.size)),
            is_unnamed,
            ..State::default()
        };
        Ok(Self {
            _link: link,
            channel,
            handle,
            path: path.to_vec(),
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
            state.look_at_task();
            while state.bytes + piece.len() > UNACKNOWLEDGED_MAX {
                state.acknowledge();
            }
            self.check(&state)?;
            let offset = offset + (nth * PIECE_MAX) as u64;
            let write = |request| Message::Write {
                request,
                handle,
                offset,
            };
            let (_, answer) = self.channel.ask_for(0, piece, write);
            state.unacknowledged.push_back((answer, piece.len()));
            state.bytes += piece.len();
            state.hash(piece, offset);
            state.size = state.size.max(offset + piece.len() as u64);
        }
        // a failure is reported as early as it is known
        state.acknowledge_ended();
        self.check(&state)
    }

    /// Changes the size, before the first commit.
    pub fn truncate(&self, size: u64) -> Result<(), Failure> {
        let mut state = self.state();
        self.check(&state)?;
        let handle = self.handle;
        let truncate = |request| Message::Truncate {
            request,
            handle,
            size,
        };
        let truncated = self.channel.ask(truncate).1.version();
        truncated.map_err(|failure| self.explain(&state, failure))?;
        state.size = size;
        state.truncate_digest(size);
        Ok(())
    }

    /// Makes all writes durable, and gives a new file its name. With a `digest`, the file must have that BLAKE3 hash.
    /// Without it, bytes that were written in their order since the last commit must have the hash of these bytes.
    pub fn commit(&self, digest: Option<[u8; 32]>) -> Result<FileVersion, Failure> {
        let mut state = self.state();
        while !state.unacknowledged.is_empty() {
            state.acknowledge();
        }
        state.look_at_task();
        self.check(&state)?;
        let (handle, size) = (self.handle, state.size);
        let digest = digest.map(|digest| (0, digest));
        let digest = digest.or_else(|| state.digest.as_ref()?.finish(size));
        let commit = |request| Message::Commit {
            request,
            handle,
            size,
            digest,
        };
        // the request is not sent then
        let was_lost = self.is_lost();
        match patiently(|| self.channel.ask(commit).1.version()) {
            Ok(version) => {
                state.is_unnamed = false;
                state.digest = Some(RunningDigest::new(size));
                version.ok_or_else(no_version)
            }
            Err(failure) => {
                let failure = if failure.kind == FailureKind::Lost && !was_lost {
                    self.lost(
                        &failure,
                        "it is not known if the file is complete: look at it",
                    )
                } else {
                    self.explain(&state, failure)
                };
                // nothing was done of a refused commit, which can be repeated
                if failure.kind != FailureKind::Crowded {
                    state.failed.get_or_insert_with(|| failure.clone());
                }
                Err(failure)
            }
        }
    }

    /// Fails if an earlier write did.
    fn check(&self, state: &State) -> Result<(), Failure> {
        let failed = state.failed.clone();
        failed.map_or(Ok(()), |failure| Err(self.explain(state, failure)))
    }

    /// Returns a failure with what remains of the file, if the connection was lost.
    fn explain(&self, state: &State, failure: Failure) -> Failure {
        if failure.kind != FailureKind::Lost || failure.text.starts_with(CANNOT) {
            return failure;
        }
        let rest = if state.is_unnamed {
            "the file is incomplete and has no name: write it again from its start"
        } else {
            "what was written since the last commit may be missing: look at the size of the file"
        };
        self.lost(&failure, rest)
    }

    fn lost(&self, failure: &Failure, rest: &str) -> Failure {
        let path = String::from_utf8_lossy(&self.path);
        Failure {
            text: format!("{CANNOT}{path}: {}; {rest}", failure.text),
            ..*failure
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Fails all further writes, and the commit, if the task of this thread is cancelled.
    fn look_at_task(&mut self) {
        if Cancellation::current().is_cancelled() {
            self.failed.get_or_insert_with(Failure::interrupted);
        }
    }

    /// Adds a piece at `offset` to the digest.
    fn hash(&mut self, piece: &[u8], offset: u64) {
        let running = self.digest.take();
        let running = running.filter(|running| running.end == offset);
        self.digest = running.map(|mut running| {
            running.add(piece);
            running
        });
    }

    /// Notes a new size for the digest.
    fn truncate_digest(&mut self, size: u64) {
        if size == 0 {
            self.digest = Some(RunningDigest::new(0));
        } else if self
            .digest
            .as_ref()
            .is_some_and(|running| running.end != size)
        {
            self.digest = None;
        }
    }

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
}

/// Digest of bytes that were written in their order.
#[derive(Debug)]
struct RunningDigest {
    begin: u64,
    end: u64,
    hasher: Box<blake3::Hasher>,
}

impl RunningDigest {
    /// Returns the digest of no bytes, of a file whose next byte is at `offset`.
    fn new(offset: u64) -> Self {
        Self {
            begin: offset,
            end: offset,
            hasher: Box::default(),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.end += bytes.len() as u64;
    }

    /// Returns the digest of all bytes from the beginning to the end of the file, which has `size` bytes.
    fn finish(&self, size: u64) -> Option<RangeDigest> {
        let hash = || *self.hasher.finalize().as_bytes();
        (self.end == size).then(|| (self.begin, hash()))
    }
}

/// Begin of the failure of a write whose connection was lost.
const CANNOT: &str = "cannot write ";

fn no_version() -> Failure {
    Failure::new(FailureKind::Other, "the server sent no version")
}
