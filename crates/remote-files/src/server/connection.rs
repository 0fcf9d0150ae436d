//! Requests of one connection, executed in order, and their answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex};

use lighthaul_files::request::FileInfo;
use lighthaul_fs::disk::InputFile;
use lighthaul_io::control::{Frame, Stream};
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::topic::Topic;

use crate::failure::{Failure, FailureKind};
use crate::message::{FileVersion, Message, PIECE_MAX};
use crate::server::answers::{Answers, as_path};
use crate::server::folder;
use crate::server::jobs::{Job, Queues, Work};
use crate::server::shared::{FILES_MAX, Shared};
use crate::server::writer::{NewFile, Writer};

/// Open handle, or the failure to open it.
type Opened = Result<Handle, Failure>;

/// Open file of a handle.
#[derive(Debug)]
enum Handle {
    Reader {
        file: InputFile,
        path: PathBuf,
        version: FileVersion,
    },
    Writer(Arc<Mutex<Writer>>),
}

/// One connection of a session.
#[derive(Debug)]
pub(super) struct Connection<'a> {
    shared: &'a Shared<'a>,
    answers: Arc<Answers>,
    queues: Queues,
    handles: BTreeMap<u64, Opened>,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.shared.files.fetch_sub(self.handles.len(), Relaxed);
    }
}

impl<'a> Connection<'a> {
    /// Creates the connection of `stream`, which passes long requests to `queues`.
    pub(super) fn new(shared: &'a Shared<'a>, stream: Stream, queues: Queues) -> Self {
        Self {
            shared,
            answers: Arc::new(Answers::new(stream)),
            queues,
            handles: BTreeMap::new(),
        }
    }

    /// Executes requests until the connection ends.
    pub(super) fn serve(mut self) -> Result<(), Error> {
        loop {
            let frame = self.answers.next(self.shared)?;
            let (head, body) = frame.octets.split_at(frame.head_len);
            self.execute(Message::decode(head)?, body)?;
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other messages have functions of their own"
    )]
    fn execute(&mut self, message: Message, body: &[u8]) -> Result<(), Error> {
        match message {
            Message::Open {
                request,
                path,
                expected,
            } => {
                let opened = self.open(&path, expected);
                self.hold(request, opened)
            }
            Message::Read {
                request,
                handle,
                offset,
                len,
            } => {
                let read = self.read(request, handle, offset, len)?;
                self.end(request, read.map(|()| None))
            }
            Message::Close { handle } => {
                self.release(handle);
                Ok(())
            }
            Message::Copy {
                request,
                from,
                to,
                replace,
            } => self.pass(request, Work::Copy(from, to, replace)),
            Message::Hash {
                request,
                path,
                kinds,
            } => self.pass(request, Work::Hash(path, kinds)),
            other => self.execute_writing(other, body),
        }
    }

    /// Executes a request of a writer.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other messages have functions of their own"
    )]
    fn execute_writing(&mut self, message: Message, body: &[u8]) -> Result<(), Error> {
        match message {
            Message::Create {
                request,
                path,
                mode,
                is_new,
            } => {
                let new = NewFile { mode, is_new };
                let created = self
                    .writable()
                    .and_then(|()| Writer::create(&self.shared.scope, as_path(&path), new));
                self.opened_writer(request, created)
            }
            Message::Append {
                request,
                path,
                size,
            } => {
                let opened = self
                    .writable()
                    .and_then(|()| Writer::append(&self.shared.scope, as_path(&path), size));
                self.opened_writer(request, opened)
            }
            Message::Write {
                request,
                handle,
                offset,
            } => {
                let written = self
                    .writer(handle)
                    .and_then(|writer| Writer::lock(&writer).write(body, offset));
                self.shared.bytes.fetch_add(body.len() as u64, Relaxed);
                self.end(request, written.map(|()| None))
            }
            Message::Truncate {
                request,
                handle,
                size,
            } => {
                let done = self
                    .writer(handle)
                    .and_then(|writer| Writer::lock(&writer).truncate(size));
                self.end(request, done.map(|()| None))
            }
            Message::Commit {
                request,
                handle,
                size,
                digest,
            } => match self.writer(handle) {
                Ok(writer) => self.pass(request, Work::Commit(writer, size, digest)),
                Err(failure) => self.end(request, Err(failure)),
            },
            other => self.execute_on_folder(other),
        }
    }

    /// Executes a request about names.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all other messages are not for a server"
    )]
    fn execute_on_folder(&self, message: Message) -> Result<(), Error> {
        let scope = &self.shared.scope;
        let (request, done) = match message {
            Message::Stat {
                request,
                path,
                follow,
            } => {
                let found = folder::stat(scope, as_path(&path), follow);
                return self.end_stat(request, found);
            }
            Message::List { request, path } => return self.pass(request, Work::List(path)),
            Message::Rename {
                request,
                from,
                to,
                replace,
            } => {
                let (from, to) = (as_path(&from), as_path(&to));
                let renamed = self
                    .writable()
                    .and_then(|()| folder::rename(scope, from, to, replace));
                (request, renamed)
            }
            Message::Remove {
                request,
                path,
                is_folder,
            } => {
                let removed = self
                    .writable()
                    .and_then(|()| folder::remove(scope, as_path(&path), is_folder));
                (request, removed)
            }
            Message::MakeFolder { request, path } => {
                let made = self
                    .writable()
                    .and_then(|()| folder::make(scope, as_path(&path)));
                (request, made)
            }
            Message::MakeLink {
                request,
                path,
                target,
            } => {
                let made = self
                    .writable()
                    .and_then(|()| folder::make_link(scope, as_path(&path), &target));
                (request, made)
            }
            Message::Set {
                request,
                path,
                mode,
                time,
            } => {
                let set = self
                    .writable()
                    .and_then(|()| folder::set(scope, as_path(&path), mode, time));
                (request, set)
            }
            _ => return Err(PeerFault::Unexpected("a request about files").into()),
        };
        self.end(request, done.map(|()| None))
    }

    /// Sends the attributes of a path, and ends the request.
    fn end_stat(
        &self,
        request: u64,
        found: Result<(FileInfo, FileVersion), Failure>,
    ) -> Result<(), Error> {
        let found = match found {
            Ok((info, version)) => {
                let items = vec![info];
                self.say(&Message::Listed { request, items })?;
                Ok(Some(version))
            }
            Err(failure) => Err(failure),
        };
        self.end(request, found)
    }

    fn writable(&self) -> Result<(), Failure> {
        if self.shared.scope.writable {
            return Ok(());
        }
        Err(Failure::new(
            FailureKind::ReadOnly,
            "files may only be read there: your key has no right to write, or the client asked to read only",
        ))
    }

    fn open(
        &self,
        path: &[u8],
        expected: Option<FileVersion>,
    ) -> Result<(Handle, FileVersion), Failure> {
        let path = as_path(path);
        let (file, version) = self.shared.scope.open(path)?;
        if expected.is_some_and(|expected| expected != version) {
            return Err(Failure::changed(path));
        }
        let path = path.to_owned();
        let handle = Handle::Reader {
            file,
            path,
            version,
        };
        Ok((handle, version))
    }

    /// Sends the bytes of a range. Fails if the client cannot be reached; the inner failure is about the file.
    fn read(
        &self,
        request: u64,
        handle: u64,
        offset: u64,
        len: u32,
    ) -> Result<Result<(), Failure>, Error> {
        let (file, path, opened) = match self.handles.get(&handle) {
            Some(Ok(Handle::Reader {
                file,
                path,
                version,
            })) => (file, path, version),
            Some(Ok(Handle::Writer(_))) | None => return Ok(Err(no_handle())),
            Some(Err(failure)) => return Ok(Err(failure.clone())),
        };
        let head = Message::Data { request }.encode();
        let end = offset.saturating_add(len.into()).min(opened.size);
        let mut at = offset;
        while at < end {
            let most = usize::try_from(end - at)
                .unwrap_or(PIECE_MAX)
                .min(PIECE_MAX);
            let mut octets = head.clone();
            octets.resize(head.len() + most, 0);
            let count = match file.read_at(&mut octets[head.len()..], at) {
                Ok(count) => count,
                Err(error) => return Ok(Err(Failure::of(FileAction::Read, path, &error))),
            };
            octets.truncate(head.len() + count);
            if count > 0 {
                let frame = Frame {
                    datagram: false,
                    head_len: head.len(),
                    octets,
                };
                self.answers.send(self.shared, &frame)?;
            }
            at += count as u64;
            self.shared.bytes.fetch_add(count as u64, Relaxed);
            if count < most {
                break;
            }
        }
        let now = file.version().map(FileVersion::from);
        Ok(match now {
            Ok(now) if now == *opened => Ok(()),
            Ok(_) => Err(Failure::changed(path)),
            Err(error) => Err(Failure::of(FileAction::Read, path, &error)),
        })
    }

    /// Keeps an opened file, or its failure, under the number of the request, and answers.
    fn hold(
        &mut self,
        request: u64,
        opened: Result<(Handle, FileVersion), Failure>,
    ) -> Result<(), Error> {
        let count = self.shared.files.fetch_add(1, Relaxed);
        let opened = if count >= FILES_MAX && opened.is_ok() {
            Err(Failure::new(
                FailureKind::Busy,
                format!("the session has {FILES_MAX} open files; close some"),
            ))
        } else {
            opened
        };
        let (opened, end) = match opened {
            Ok((handle, version)) => (Ok(handle), Ok(Some(version))),
            Err(failure) => (Err(failure.clone()), Err(failure)),
        };
        if count >= 2 * FILES_MAX || self.handles.insert(request, opened).is_some() {
            return Err(PeerFault::Invalid("the number of a request that is in use").into());
        }
        self.end(request, end)
    }

    fn release(&mut self, handle: u64) {
        if self.handles.remove(&handle).is_some() {
            self.shared.files.fetch_sub(1, Relaxed);
        }
    }

    fn opened_writer(
        &mut self,
        request: u64,
        opened: Result<(Writer, FileVersion), Failure>,
    ) -> Result<(), Error> {
        let handle = |writer| Handle::Writer(Arc::new(Mutex::new(writer)));
        self.hold(
            request,
            opened.map(|(writer, version)| (handle(writer), version)),
        )
    }

    fn writer(&self, handle: u64) -> Result<Arc<Mutex<Writer>>, Failure> {
        match self.handles.get(&handle) {
            Some(Ok(Handle::Writer(writer))) => Ok(Arc::clone(writer)),
            Some(Ok(Handle::Reader { .. })) | None => Err(no_handle()),
            Some(Err(failure)) => Err(failure.clone()),
        }
    }

    /// Passes a request that takes longer to another thread.
    fn pass(&self, request: u64, work: Work) -> Result<(), Error> {
        let changes = matches!(work, Work::Copy(..));
        if changes && let Err(failure) = self.writable() {
            return self.end(request, Err(failure));
        }
        let queue = self.queues.of(&work);
        let job = Job {
            request,
            work,
            answers: Arc::clone(&self.answers),
        };
        match queue.try_send(job) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                let text = "the session has too many long requests; wait for some";
                self.end(request, Err(Failure::new(FailureKind::Crowded, text)))
            }
        }
    }

    fn say(&self, message: &Message) -> Result<(), Error> {
        self.answers.say(self.shared, message)
    }

    fn end(&self, request: u64, result: Result<Option<FileVersion>, Failure>) -> Result<(), Error> {
        self.answers.end(self.shared, request, result)
    }
}

fn no_handle() -> Failure {
    Failure::new(
        FailureKind::Invalid,
        "the file is not open for this operation",
    )
}
