//! Open file of the server, read by any number of threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_io::host::clock::Clock;

use crate::client::answer::Answer;
use crate::client::link::Link;
use crate::client::links::Links;
use crate::client::ranges::PIECE_MAX;
use crate::client::read_ahead::{BLOCK, ReadAhead};
use crate::client::remote_file::RemoteFile;
use crate::failure::{Failure, FailureKind};
use crate::message::FileVersion;

/// File that is open for reading. Reads fail if another program changes the file.
#[derive(Debug)]
pub struct RemoteReader {
    files: Links,
    file: RemoteFile,
    version: FileVersion,
    clock: Clock,
    ahead: Mutex<ReadAhead>,
}

impl Drop for RemoteReader {
    fn drop(&mut self) {
        self.ahead().clear(self.files.ahead());
    }
}

impl RemoteReader {
    pub(super) fn open(files: &Links, path: &[u8]) -> Result<Self, Failure> {
        let (file, version) = files.repeat(|link| {
            let file = RemoteFile::new(path);
            file.open(link);
            let version = file.version()?;
            Ok((file, version))
        })?;
        let clock = Clock::start();
        Ok(Self {
            files: files.clone(),
            file,
            version,
            clock,
            ahead: Mutex::new(ReadAhead::new(clock.now())),
        })
    }

    /// Returns the size in bytes.
    pub const fn size(&self) -> u64 {
        self.version.size
    }

    /// Returns the version.
    pub const fn version(&self) -> FileVersion {
        self.version
    }

    /// Returns up to `len` bytes from `offset`; fewer only at the end of the file.
    pub fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, Failure> {
        let end = offset.saturating_add(len as u64).min(self.version.size);
        let mut bytes = Vec::new();
        let mut at = offset;
        // in parts, since a server may name any size
        while at < end {
            let part = self.read_part(at, end.min(at + PART_MAX))?;
            at += part.len() as u64;
            if bytes.is_empty() {
                bytes = part;
            } else {
                bytes.extend_from_slice(&part);
            }
        }
        Ok(bytes)
    }

    /// Returns the bytes from `offset` to `end`.
    fn read_part(&self, offset: u64, end: u64) -> Result<Vec<u8>, Failure> {
        let mut ahead = self.ahead();
        if !ahead.continues(offset) {
            ahead.jump(end, self.files.ahead());
            drop(ahead);
            return self.fetch(offset, end);
        }
        let link = self.files.link(Duration::ZERO).ok();
        let span = (offset, end, self.version.size);
        let blocks = ahead.take(span, self.files.ahead(), |from, len| {
            let link = link.as_ref()?;
            Some(self.file.read(link, from, len))
        });
        drop(ahead);
        let rtt = link.map_or(Duration::ZERO, |link| link.rtt());
        let mut bytes = Vec::with_capacity((end - offset) as usize);
        let first = offset / BLOCK;
        for (nth, block) in blocks.into_iter().enumerate() {
            let start = (first + nth as u64) * BLOCK;
            let from = offset.max(start);
            let till = end.min(start + BLOCK);
            self.copy_block(block, (start, from, till), rtt, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Appends the bytes from `from` to `till` of the block at `start`. A lost block is requested again.
    fn copy_block(
        &self,
        block: Option<Arc<Answer>>,
        (start, from, till): (u64, u64, u64),
        rtt: Duration,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let Some(block) = block else {
            bytes.extend(self.fetch(from, till)?);
            return Ok(());
        };
        if !block.has_ended() {
            self.ahead().adapt(self.clock.now(), rtt);
        }
        match block.wait() {
            Ok(parts) => {
                let span = (from - start) as usize..(till - start) as usize;
                let piece = parts.data.get(span).ok_or_else(shortened)?;
                bytes.extend_from_slice(piece);
                Ok(())
            }
            Err(failure) => {
                self.ahead().forget(start, &block, self.files.ahead());
                if !matches!(failure.kind, FailureKind::Lost | FailureKind::Busy) {
                    return Err(failure);
                }
                bytes.extend(self.fetch(from, till)?);
                Ok(())
            }
        }
    }

    /// Returns the bytes of a range, without read-ahead.
    fn fetch(&self, offset: u64, end: u64) -> Result<Vec<u8>, Failure> {
        let bytes = self.files.repeat(|link| {
            loop {
                match self.fetch_on(link, offset, end) {
                    Err(failure)
                        if failure.kind == FailureKind::Busy && self.file.is_open(link) => {}
                    result => return result,
                }
            }
        })?;
        if bytes.len() as u64 == end - offset {
            Ok(bytes)
        } else {
            Err(shortened())
        }
    }

    fn fetch_on(&self, link: &Link, offset: u64, end: u64) -> Result<Vec<u8>, Failure> {
        let mut answers = Vec::new();
        let mut at = offset;
        while at < end {
            let len = (end - at).min(PIECE_MAX);
            answers.push(self.file.read(link, at, len as u32));
            at += len;
        }
        let mut bytes = Vec::with_capacity((end - offset) as usize);
        for answer in answers {
            bytes.append(&mut answer.wait()?.data);
        }
        Ok(bytes)
    }

    fn ahead(&self) -> MutexGuard<'_, ReadAhead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of bytes of a read that are requested at a time.
const PART_MAX: u64 = 64 << 20;

fn shortened() -> Failure {
    let text = "the file became shorter while it was open; open it again";
    Failure::new(FailureKind::Changed, text)
}
