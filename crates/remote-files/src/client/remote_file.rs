//! File that is read, open on each connection that reads from it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client::answer::Answer;
use crate::client::channel::Channel;
use crate::client::link::Link;
use crate::failure::{Failure, FailureKind};
use crate::message::{FileVersion, Message};

/// Bytes in transit on a connection above which reads of a file use an additional connection. A new connection carries
/// few bytes in its first round trips; but each has the file open.
const BUSY_BYTES: u64 = 64 << 10;

/// File that is read. A connection opens it before its first read.
#[derive(Debug)]
pub(super) struct RemoteFile {
    path: Vec<u8>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Version that the file must have, once it is known.
    version: Option<FileVersion>,
    /// Handles by numbers of connections.
    handles: BTreeMap<u64, Handle>,
    /// Answers to open requests whose version was not compared yet.
    openings: Vec<Arc<Answer>>,
    /// True once the server had too many files open.
    is_crowded: bool,
    /// True once two connections had opened different versions.
    is_mixed: bool,
}

#[derive(Debug)]
struct Handle {
    channel: Arc<Channel>,
    number: u64,
    opening: Arc<Answer>,
}

impl Handle {
    fn close(&self) {
        let handle = self.number;
        self.channel.say(&Message::Close { handle });
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        self.close();
    }
}

impl RemoteFile {
    /// Returns the file at `path`, of any version.
    pub(super) fn new(path: &[u8]) -> Self {
        Self {
            path: path.to_vec(),
            state: Mutex::default(),
        }
    }

    /// Requests a range.
    pub(super) fn read(&self, link: &Link, offset: u64, len: u32) -> Arc<Answer> {
        let channel = &self.channel(link);
        let handle = self.handle(channel);
        let read = |request| Message::Read {
            request,
            handle,
            offset,
            len,
        };
        channel.ask_for(len, &[], read).1
    }

    /// Returns the connection for the next read: a connection with the open file, unless it has many bytes in transit.
    pub(super) fn channel(&self, link: &Link) -> Arc<Channel> {
        let mut state = self.state();
        let State {
            handles,
            is_crowded,
            ..
        } = &mut *state;
        handles.retain(|_, handle| {
            let is_refused = handle.opening.failure() == Some(FailureKind::Busy);
            if is_refused {
                // the server keeps the failure for requests that follow, and counts it
                handle.close();
            }
            *is_crowded |= is_refused;
            !is_refused && !handle.channel.has_ended()
        });
        let handles = state.handles.values();
        let open = handles.min_by_key(|handle| handle.channel.awaited());
        let open = open.filter(|open| state.is_crowded || open.channel.awaited() < BUSY_BYTES);
        open.map_or_else(|| link.idlest(), |open| Arc::clone(&open.channel))
    }

    /// Returns true if a connection has the file open, so that a read succeeds although another open request was
    /// refused.
    pub(super) fn is_open(&self, link: &Link) -> bool {
        // forgets refused openings
        self.channel(link);
        let state = self.state();
        let mut openings = state.handles.values().map(|handle| &handle.opening);
        openings.any(|opening| opening.has_ended() && opening.failure().is_none())
    }

    /// Opens the file on `channel`, unless it is open on that connection. Returns its handle.
    fn handle(&self, channel: &Arc<Channel>) -> u64 {
        let mut state = self.state();
        if let Some(handle) = state.handles.get(&channel.number) {
            return handle.number;
        }
        let expected = state.version;
        let (number, answer) = channel.ask(|request| Message::Open {
            request,
            path: self.path.clone(),
            expected,
        });
        let handle = Handle {
            channel: Arc::clone(channel),
            number,
            opening: Arc::clone(&answer),
        };
        state.handles.insert(channel.number, handle);
        if expected.is_none() {
            state.openings.push(answer);
        }
        number
    }

    /// Opens the file on one connection.
    pub(super) fn open(&self, link: &Link) {
        self.handle(&self.channel(link));
    }

    /// Waits until the file is open wherever that was requested. Fails if its versions differ, and from then on, since
    /// reads that were requested before may have the bytes of any of them.
    pub(super) fn version(&self) -> Result<FileVersion, Failure> {
        let openings = std::mem::take(&mut self.state().openings);
        let mut failed = None;
        for opening in openings {
            match opening.version() {
                Ok(found) => {
                    let known = self.learn(found);
                    self.state().is_mixed |= found != known;
                }
                // reads use the connections that have the file open
                Err(failure) if failure.kind == FailureKind::Busy && self.is_known() => {}
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        match failed {
            _ if self.state().is_mixed => Err(self.changed()),
            Some(failure) => Err(failure),
            None => self.state().version.ok_or_else(|| self.changed()),
        }
    }

    fn is_known(&self) -> bool {
        self.state().version.is_some()
    }

    /// Stores the first version that is found, and returns it.
    fn learn(&self, found: Option<FileVersion>) -> Option<FileVersion> {
        let mut state = self.state();
        state.version = state.version.or(found);
        state.version
    }

    /// Closes the file on all connections, after the reads that were requested before.
    pub(super) fn close(&self) {
        let handles = std::mem::take(&mut self.state().handles);
        for handle in handles.into_values() {
            handle.close();
        }
    }

    fn changed(&self) -> Failure {
        Failure::changed(Path::new(OsStr::from_bytes(&self.path)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(inode: u64) -> Arc<Answer> {
        let answer = Answer::default();
        let version = FileVersion {
            inode,
            ..FileVersion::default()
        };
        answer.end(Ok(Some(version)));
        Arc::new(answer)
    }

    /// Reads of several ranges wait for the version one after the other, and any of them may have bytes of both.
    #[test]
    fn file_of_two_versions_fails_for_every_read() {
        let file = RemoteFile::new(b"file");
        file.state().openings = vec![opened(1), opened(2)];
        for nth in 0..3 {
            let failure = file.version().expect_err("two versions");
            assert_eq!(failure.kind, FailureKind::Changed, "{nth}");
        }
    }

    #[test]
    fn file_of_one_version_can_be_read() {
        let file = RemoteFile::new(b"file");
        for _ in 0..2 {
            file.state().openings = vec![opened(1), opened(1)];
            assert_eq!(file.version().unwrap().inode, 1);
        }
    }
}
