//! Execution of requests about files: list, hash, describe, create and remove.
//!
//! [`execute`] serves the commands `ls`, `stat`, `rm` and `mkdir` on both sides of a session. It
//! sends the reply in parts of bounded size, so that memory does not depend on the size of a tree.
//! An item that fails becomes a part of the reply, and the other items are still handled. All paths
//! are opened below the root of a [`Scope`], which no link can leave.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_fs::file_access::{FileAccess, Folder};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error, FileAction};
use lighthaul_session::halt::Halt;

use crate::error::Fault;
use crate::hash::{FileHashes, HashKind, RunningHashes};
use crate::request::{FileInfo, FileKind, FileReply, FileRequest};
use crate::special::special;

/// Use of each item of a directory.
enum Visit<'a> {
    /// Listing. Names that begin with a dot are only listed if `hidden` is true.
    List { hidden: bool },
    /// Hashes of files, which are read below the directory.
    Hash {
        access: FileAccess,
        kinds: &'a [HashKind],
    },
}

impl Visit<'_> {
    fn hides(&self, name: &OsStr) -> bool {
        let shows = matches!(self, Self::List { hidden: true } | Self::Hash { .. });
        !shows && name.as_bytes().starts_with(b".")
    }
}

/// Hashes of a file, as digits.
type Hashes = Vec<(HashKind, String)>;

/// Files and rights of a request.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Part of the file system that can be reached.
    pub access: &'a FileAccess,
    /// True if files may be changed.
    pub writable: bool,
    /// True if devices, FIFOs and sockets may be removed.
    pub special: bool,
    /// Halt of the session, for example when the rights of its client end.
    pub halt: &'a Halt,
}

/// Executes `request` and passes each part of the reply to `say`. Items that fail are part of the
/// reply, and the others are done. Fails only if nothing can be done, or if `say` fails. Returns
/// the number of items done.
pub fn execute(
    scope: Scope<'_>,
    request: &FileRequest,
    say: &mut dyn FnMut(FileReply) -> Result<(), Error>,
) -> Result<u64, Error> {
    if request.changes() && !scope.writable {
        return Err(Fault::ReadOnly.into());
    }
    let clock = Clock::start();
    let mut executor = Executor {
        access: scope.access,
        special: scope.special,
        halt: scope.halt,
        say,
        clock,
        last_sent: clock.now(),
        listed: Vec::new(),
        hashed: Vec::new(),
        listed_bytes: 0,
        done: 0,
        unsynced: None,
    };
    match request {
        FileRequest::List {
            path,
            hidden,
            recursive,
        } => executor.list(path, *hidden, *recursive)?,
        FileRequest::Hash { path, kinds } => executor.hash(path, kinds)?,
        FileRequest::Stat { paths } => executor.each(paths, Executor::stat)?,
        FileRequest::Remove { paths, recursive } => {
            executor.each(paths, |executor, path| executor.remove(path, *recursive))?;
        }
        FileRequest::Make { paths, parents } => {
            executor.each(paths, |executor, path| executor.make(path, *parents))?;
        }
    }
    executor.sync()?;
    executor.flush()?;
    let done = executor.done;
    (executor.say)(FileReply::Done { done })?;
    Ok(done)
}

// fields: one request, what it may reach, and the part of the reply that was not sent
struct Executor<'a> {
    access: &'a FileAccess,
    special: bool,
    halt: &'a Halt,
    say: &'a mut dyn FnMut(FileReply) -> Result<(), Error>,
    clock: Clock,
    last_sent: Instant,
    listed: Vec<FileInfo>,
    hashed: Vec<FileHashes>,
    /// Approximate bytes of both.
    listed_bytes: usize,
    done: u64,
    /// Path and directory with changed names that was not synced.
    unsynced: Option<(PathBuf, Folder)>,
}

impl Executor<'_> {
    fn each(
        &mut self,
        paths: &[Vec<u8>],
        mut act: impl FnMut(&mut Self, &Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for path in paths {
            act(self, Path::new(OsStr::from_bytes(path)))?;
        }
        Ok(())
    }

    fn list(&mut self, path: &[u8], hidden: bool, recursive: bool) -> Result<(), Error> {
        let path = Path::new(OsStr::from_bytes(path));
        match self.access.folder(path) {
            Ok(folder) => {
                let levels = recursive.then_some(DEPTH_MAX);
                let visit = Visit::List { hidden };
                self.walk((folder, path), Path::new(""), &visit, levels)
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => self.stat(path),
            Err(error) => self.fail(FileAction::List, path, &error),
        }
    }

    /// Reads the files below the directory at `path`, and adds their hashes to the reply.
    fn hash(&mut self, path: &[u8], kinds: &[HashKind]) -> Result<(), Error> {
        let path = Path::new(OsStr::from_bytes(path));
        let opened = self.access.within(path);
        let opened = opened.and_then(|access| Ok((access.folder(Path::new(""))?, access)));
        match opened {
            Ok((folder, access)) => {
                let visit = Visit::Hash { access, kinds };
                self.walk((folder, path), Path::new(""), &visit, Some(DEPTH_MAX))
            }
            Err(error) => self.fail(FileAction::List, path, &error),
        }
    }

    /// Visits the contents of an open directory and of subdirectories, down to `levels` levels.
    fn walk(
        &mut self,
        (mut folder, path): (Folder, &Path),
        below: &Path,
        visit: &Visit<'_>,
        levels: Option<usize>,
    ) -> Result<(), Error> {
        loop {
            let Some(names) = self.names(&mut folder, path, FileAction::List)? else {
                return Ok(());
            };
            if names.is_empty() {
                return Ok(());
            }
            for name in names.into_iter().filter(|name| !visit.hides(name)) {
                let (path, below) = (path.join(&name), below.join(&name));
                let is_folder = match listed(&folder, &name, below.as_os_str().as_bytes()) {
                    Ok(listed) => {
                        let is_folder = listed.kind == FileKind::Folder;
                        self.visit(listed, &below, visit)?;
                        is_folder
                    }
                    // it was removed after its name was read
                    Err(error) if error.kind() == ErrorKind::NotFound => false,
                    Err(error) => {
                        self.fail(FileAction::ReadMetadata, &path, &error)?;
                        false
                    }
                };
                if let (true, Some(levels)) = (is_folder, levels) {
                    self.walk_inner((&folder, &name), (&path, &below), visit, levels)?;
                }
            }
            self.report_progress()?;
        }
    }

    /// Adds an item to the reply.
    fn visit(&mut self, listed: FileInfo, below: &Path, visit: &Visit<'_>) -> Result<(), Error> {
        let Visit::Hash { access, kinds } = visit else {
            return self.add(listed);
        };
        if listed.kind != FileKind::File {
            return Ok(());
        }
        let read = match access.read(below) {
            Ok(mut file) => self.hash_file(&mut file, kinds)?,
            Err(error) => Err(error),
        };
        match read {
            Ok((size, hashes)) => self.add_hashes(FileHashes {
                path: listed.path,
                size,
                hashes,
            }),
            Err(error) => {
                self.flush()?;
                self.say(FileReply::Unreadable {
                    path: listed.path,
                    why: error.to_string(),
                })
            }
        }
    }

    /// Visits the contents of the directory `name` in `folder`.
    fn walk_inner(
        &mut self,
        (folder, name): (&Folder, &OsStr),
        (path, below): (&Path, &Path),
        visit: &Visit<'_>,
        levels: usize,
    ) -> Result<(), Error> {
        if levels == 0 {
            let why = format!(
                "cannot list {}: it is nested more than {DEPTH_MAX} directories deep",
                path.display()
            );
            return self.refuse(Code::Io, why);
        }
        match folder.enter(name) {
            Ok(inner) => self.walk((inner, path), below, visit, Some(levels - 1)),
            // it was removed or replaced after its name was read
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(())
            }
            Err(error) => self.fail(FileAction::List, path, &error),
        }
    }

    /// Returns size and hashes of an open file. Fails if the session was halted.
    fn hash_file(
        &mut self,
        file: &mut File,
        kinds: &[HashKind],
    ) -> Result<io::Result<(u64, Hashes)>, Error> {
        let mut hashes = RunningHashes::new(kinds);
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut size = 0;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(Ok((size, hashes.finish()))),
                Ok(count) => {
                    hashes.update(&buffer[..count]);
                    size += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(error)),
            }
            self.report_progress()?;
        }
    }

    fn add_hashes(&mut self, hashes: FileHashes) -> Result<(), Error> {
        let digits = hashes.hashes.iter().map(|(_, digits)| digits.len());
        self.listed_bytes += hashes.path.len() + digits.sum::<usize>() + size_of::<FileHashes>();
        self.hashed.push(hashes);
        if self.listed_bytes >= PIECE_BYTES {
            self.flush()?;
        }
        self.advance()
    }

    /// Reports that an item is not handled, with the exit status and the reason.
    fn refuse(&mut self, code: Code, why: String) -> Result<(), Error> {
        let code = code as u8;
        self.say(FileReply::Failed { code, why })
    }

    /// Returns the next names in the directory `folder`, or `None` after a reported failure.
    fn names(
        &mut self,
        folder: &mut Folder,
        path: &Path,
        action: FileAction,
    ) -> Result<Option<Vec<OsString>>, Error> {
        match folder.names(NAMES_MAX) {
            Ok(names) => Ok(Some(names)),
            Err(error) => self.fail(action, path, &error).map(|()| None),
        }
    }

    fn stat(&mut self, path: &Path) -> Result<(), Error> {
        let octets = path.as_os_str().as_bytes();
        let found = match self.access.parent(path) {
            Ok(Some((folder, name))) => listed(&folder, name, octets),
            // the root itself, or a path of dots
            Ok(None) => self
                .access
                .folder(path)
                .and_then(|folder| listed(&folder, OsStr::new("."), octets)),
            Err(error) => Err(error),
        };
        match found {
            Ok(listed) => self.add(listed),
            Err(error) => self.fail(FileAction::ReadMetadata, path, &error),
        }
    }

    fn make(&mut self, path: &Path, parents: bool) -> Result<(), Error> {
        let mut made = PathBuf::new();
        for part in path.components().filter(|_| parents) {
            made.push(part);
            if made == path {
                break;
            }
            // a directory that cannot be created here is reported below
            if let Ok(Some((folder, name))) = self.access.parent(&made)
                && folder.make(name).is_ok()
            {
                self.changed(folder, &made)?;
            }
        }
        let result = match self.access.parent(path) {
            Ok(Some((folder, name))) => {
                let result = folder.make(name).or_else(|error| {
                    let is_there = error.kind() == ErrorKind::AlreadyExists && parents;
                    if is_there && self.access.folder(path).is_ok() {
                        Ok(())
                    } else {
                        Err(error)
                    }
                });
                self.changed(folder, path)?;
                result
            }
            Ok(None) if parents => self.access.folder(path).map(|_| ()),
            Ok(None) => Err(ErrorKind::AlreadyExists.into()),
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => self.advance(),
            Err(error) => self.fail(FileAction::CreateFolder, path, &error),
        }
    }

    fn remove(&mut self, path: &Path, recursive: bool) -> Result<(), Error> {
        match self.access.parent(path) {
            Ok(Some((folder, name))) => {
                self.remove_from(&folder, name, path, recursive.then_some(DEPTH_MAX))?;
                self.changed(folder, path)
            }
            Ok(None) => {
                let text = format!(
                    "cannot remove {}: it is the root or a path of dots",
                    path.display()
                );
                self.refuse(Code::Usage, text)
            }
            Err(error) => self.fail(FileAction::Remove, path, &error),
        }
    }

    /// Removes `name` in `folder`, which is at `path`. Contents of directories are removed first, down
    /// to `levels` levels.
    fn remove_from(
        &mut self,
        folder: &Folder,
        name: &OsStr,
        path: &Path,
        levels: Option<usize>,
    ) -> Result<(), Error> {
        self.check()?;
        let there = folder.look(name).ok().filter(|_| !self.special);
        if let Some(what) = there.and_then(|meta| special(meta.kind)) {
            let text = format!(
                "cannot remove {}: it is a {what}, and your key has no right to remove those (`lighthaul allow --special` grants it)",
                path.display()
            );
            return self.refuse(Code::Permission, text);
        }
        let error = match folder.remove(name) {
            Ok(()) => return self.advance(),
            // some systems return "not permitted" for directories
            Err(error) => error,
        };
        let is_folder = folder.look(name).is_ok_and(|meta| meta.kind.is_dir());
        if !is_folder {
            return self.fail(FileAction::Remove, path, &error);
        }
        let Some(levels) = levels else {
            let text = format!(
                "cannot remove {}: it is a directory; use -r to remove it with its contents",
                path.display()
            );
            return self.refuse(Code::Usage, text);
        };
        if levels == 0 {
            let text = format!(
                "cannot remove {}: it is nested more than {DEPTH_MAX} directories deep",
                path.display()
            );
            return self.refuse(Code::Io, text);
        }
        let mut inner = match folder.enter(name) {
            Ok(inner) => inner,
            Err(error) => return self.fail(FileAction::Remove, path, &error),
        };
        loop {
            let Some(names) = self.names(&mut inner, path, FileAction::Remove)? else {
                return Ok(());
            };
            if names.is_empty() {
                break;
            }
            for name in names {
                let path = path.join(&name);
                self.remove_from(&inner, &name, &path, Some(levels - 1))?;
            }
        }
        match folder.remove_folder(name) {
            Ok(()) => self.advance(),
            Err(error) => self.fail(FileAction::Remove, path, &error),
        }
    }

    /// Records that names in `folder`, which contains `path`, have changed. It is synced before the
    /// next directory, or at the end.
    fn changed(&mut self, folder: Folder, path: &Path) -> Result<(), Error> {
        let parent = path.parent().unwrap_or_else(|| Path::new(""));
        if self
            .unsynced
            .as_ref()
            .is_some_and(|(last, _)| last == parent)
        {
            return Ok(());
        }
        self.sync()?;
        self.unsynced = Some((parent.to_owned(), folder));
        Ok(())
    }

    /// Syncs the directory with changed names. A removed directory needs no sync, as its own name is
    /// removed later.
    fn sync(&mut self) -> Result<(), Error> {
        let Some((path, folder)) = self.unsynced.take() else {
            return Ok(());
        };
        match folder.sync() {
            Ok(()) => Ok(()),
            Err(error) => self.fail(FileAction::Sync, &path, &error),
        }
    }

    fn add(&mut self, listed: FileInfo) -> Result<(), Error> {
        self.listed_bytes += listed.path.len() + size_of::<FileInfo>();
        if let FileKind::Link(says) = &listed.kind {
            self.listed_bytes += says.len();
        }
        self.listed.push(listed);
        if self.listed_bytes >= PIECE_BYTES {
            self.flush()?;
        }
        self.advance()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.listed_bytes = 0;
        if !self.hashed.is_empty() {
            let files = mem::take(&mut self.hashed);
            self.say(FileReply::Hashed { files })?;
        }
        if self.listed.is_empty() {
            return Ok(());
        }
        let items = mem::take(&mut self.listed);
        self.say(FileReply::Listed { items })
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.done += 1;
        self.report_progress()
    }

    /// Reports progress if the last message is old.
    fn report_progress(&mut self) -> Result<(), Error> {
        self.check()?;
        if self.clock.now().since(self.last_sent) < PROGRESS_INTERVAL {
            return Ok(());
        }
        self.flush()?;
        self.say(FileReply::Busy { done: self.done })
    }

    /// Fails if the session was halted or the user has interrupted the command.
    fn check(&self) -> Result<(), Error> {
        self.halt.check()?;
        Ok(interrupt::check()?)
    }

    fn fail(&mut self, action: FileAction, path: &Path, error: &io::Error) -> Result<(), Error> {
        let error = Error::file(action, path, error);
        self.say(FileReply::Failed {
            code: error.code() as u8,
            why: error.text(),
        })
    }

    fn say(&mut self, answer: FileReply) -> Result<(), Error> {
        self.last_sent = self.clock.now();
        (self.say)(answer)
    }
}

/// Describes `name` in `folder`, under `path`.
fn listed(folder: &Folder, name: &OsStr, path: &[u8]) -> io::Result<FileInfo> {
    let meta = folder.look(name)?;
    let target = meta.kind.is_symlink().then(|| folder.link(name));
    Ok(FileInfo::of(&meta, target.transpose()?, path))
}

/// Names of a directory that are read at a time.
const NAMES_MAX: usize = 1000;
/// Approximate size of one part of a reply, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of a file that are read at a time.
const BUFFER_BYTES: usize = 1 << 18;
/// Longest time between messages while work continues.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Deepest nesting of listed and removed directories. Each takes a file descriptor until it is empty.
const DEPTH_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_scope_rejects_changes() {
        let access = FileAccess::anywhere();
        let scope = Scope {
            access: &access,
            writable: false,
            special: false,
            halt: &Halt::default(),
        };
        let paths = vec![b"lighthaul-is-not-made".to_vec()];
        let requests = [
            FileRequest::Make {
                paths: paths.clone(),
                parents: true,
            },
            FileRequest::Remove {
                paths,
                recursive: true,
            },
        ];
        for request in requests {
            let mut say = |answer| panic!("{answer:?}");
            let error = execute(scope, &request, &mut say).unwrap_err();
            assert_eq!(error.code(), Code::Permission);
        }
        assert!(!Path::new("lighthaul-is-not-made").exists());
        let paths = vec![b".".to_vec()];
        let request = FileRequest::Stat { paths };
        assert_eq!(execute(scope, &request, &mut |_| Ok(())), Ok(1));
    }

    #[test]
    fn removal_ends_when_the_session_is_halted() {
        let top = std::env::temp_dir().join(format!("lighthaul-halted-{}", std::process::id()));
        for name in ["a", "b", "c"] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        let (access, halt) = (FileAccess::anywhere(), Halt::default());
        let scope = Scope {
            access: &access,
            writable: true,
            special: false,
            halt: &halt,
        };
        let paths = vec![top.as_os_str().as_bytes().to_vec()];
        let request = FileRequest::Remove {
            paths,
            recursive: true,
        };
        let denied = Error::from(Fault::ReadOnly);
        halt.stop(denied.clone());
        assert_eq!(execute(scope, &request, &mut |_| Ok(())), Err(denied));
        assert_eq!(std::fs::read_dir(&top).unwrap().count(), 3);
        std::fs::remove_dir_all(&top).unwrap();
    }
}
