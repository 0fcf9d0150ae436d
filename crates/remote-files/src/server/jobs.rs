//! Requests that take longer than a read: commits, copies, hashes and lists.

use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use lighthaul_files::hash::{FileHashes, HashKind, RunningHashes};
use lighthaul_fs::disk::InputFile;
use lighthaul_session::error::{Error, FileAction};

use crate::failure::Failure;
use crate::message::{FileVersion, Message, RangeDigest};
use crate::server::answers::{Answers, as_path};
use crate::server::folder;
use crate::server::shared::Shared;
use crate::server::writer::{NewFile, Writer};

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Request that a worker thread executes instead of the thread of its connection.
#[derive(Debug)]
pub(super) struct Job {
    /// Number of the request.
    pub(super) request: u64,
    /// Work to do.
    pub(super) work: Work,
    /// Answers of the connection.
    pub(super) answers: Arc<Answers>,
}

/// Queues of the worker threads.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    /// Work that may read whole files.
    pub(super) files: SyncSender<Job>,
    /// Lists, which have a thread of their own: they do not wait for that work.
    pub(super) lists: SyncSender<Job>,
}

impl Queues {
    /// Returns the queue of `work`.
    pub(super) const fn of(&self, work: &Work) -> &SyncSender<Job> {
        match work {
            Work::Commit(..) | Work::Copy(..) | Work::Hash(..) => &self.files,
            Work::List(_) => &self.lists,
        }
    }
}

/// Work of a job.
#[derive(Debug)]
pub(super) enum Work {
    /// Commits a file with the given size and digest.
    Commit(Arc<Mutex<Writer>>, u64, Option<RangeDigest>),
    /// Copies a file. Replaces an existing file if the last field is true.
    Copy(Vec<u8>, Vec<u8>, bool),
    /// Computes hashes of a file.
    Hash(Vec<u8>, Vec<HashKind>),
    /// Lists a directory.
    List(Vec<u8>),
}

/// Does the work of `job`, and answers. Fails if the client cannot be reached.
pub(super) fn work(shared: &Shared<'_>, job: Job) -> Result<(), Error> {
    let Job {
        request,
        work,
        answers,
    } = job;
    let result = match work {
        Work::Commit(writer, size, digest) => {
            // its handle alone keeps the file open when the client has the answer
            Writer::lock(&writer).commit(shared, size, digest).map(Some)
        }
        Work::Copy(from, to, replace) => {
            copy(shared, as_path(&from), as_path(&to), replace)?.map(Some)
        }
        Work::Hash(path, kinds) => match hash(shared, as_path(&path), &kinds)? {
            Ok((hashes, version)) => {
                let hashed = Message::Hashed { request, hashes };
                answers.say(shared, &hashed)?;
                Ok(Some(version))
            }
            Err(failure) => Err(failure),
        },
        Work::List(path) => {
            let listed = folder::list(&shared.scope, as_path(&path), |items| {
                answers.say(shared, &Message::Listed { request, items })
            })?;
            listed.map(|()| None)
        }
    };
    answers.end(shared, request, result)
}

/// Copies a file to a temporary name, and renames the copy.
fn copy(
    shared: &Shared<'_>,
    from: &Path,
    to: &Path,
    replace: bool,
) -> Result<Result<FileVersion, Failure>, Error> {
    let scope = &shared.scope;
    let opened = scope.open(from).and_then(|(file, version)| {
        let new = NewFile {
            mode: Some(mode(&file)),
            is_new: !replace,
        };
        Ok((file, version, Writer::create(scope, to, new)?.0))
    });
    let (file, version, mut writer) = match opened {
        Ok(opened) => opened,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut size = 0;
    let read = read_all(shared, &file, from, |piece| {
        let at = size;
        size += piece.len() as u64;
        // holes stay holes
        if piece.iter().all(|octet| *octet == 0) {
            return Ok(());
        }
        writer.write(piece, at)
    })?;
    Ok(read
        .and_then(|()| unchanged(&file, from, version))
        .and_then(|_| writer.truncate(size))
        .and_then(|()| writer.commit(shared, size, None)))
}

/// Returns the hashes of a file.
fn hash(
    shared: &Shared<'_>,
    path: &Path,
    kinds: &[HashKind],
) -> Result<Result<(FileHashes, FileVersion), Failure>, Error> {
    let (file, version) = match shared.scope.open(path) {
        Ok(opened) => opened,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut hashes = RunningHashes::new(kinds);
    let mut size = 0;
    let read = read_all(shared, &file, path, |piece| {
        hashes.update(piece);
        size += piece.len() as u64;
        Ok(())
    })?;
    let hashed = read.and_then(|()| unchanged(&file, path, version));
    Ok(hashed.map(|version| {
        let hashes = FileHashes {
            path: Vec::new(),
            size,
            hashes: hashes.finish(),
        };
        (hashes, version)
    }))
}

fn mode(file: &InputFile) -> u32 {
    rustix::fs::fstat(file).map_or(0o600, |stat| stat.st_mode & 0o777)
}

/// Passes the bytes of `file` to `take`. Fails if the session is halted; the inner failure is about the file.
fn read_all(
    shared: &Shared<'_>,
    file: &InputFile,
    path: &Path,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<Result<(), Failure>, Error> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = 0;
    loop {
        shared.check()?;
        match file.read_at(&mut buffer, at) {
            Ok(0) => return Ok(Ok(())),
            Ok(count) => {
                if let Err(failure) = take(&buffer[..count]) {
                    return Ok(Err(failure));
                }
                at += count as u64;
            }
            Err(error) => return Ok(Err(Failure::of(FileAction::Read, path, &error))),
        }
        if shared.has_ended() {
            return Ok(Err(Failure::changed(path)));
        }
    }
}

fn unchanged(file: &InputFile, path: &Path, version: FileVersion) -> Result<FileVersion, Failure> {
    match file.version().map(FileVersion::from) {
        Ok(now) if now == version => Ok(now),
        Ok(_) => Err(Failure::changed(path)),
        Err(error) => Err(Failure::of(FileAction::Read, path, &error)),
    }
}
