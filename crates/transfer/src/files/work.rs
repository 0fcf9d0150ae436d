//! Doing what a verb says, a bounded piece of the answer at a time.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::mem;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::fs::folder::leaves_root;
use lighthaul_io::fs::ground::{Folder, Ground};
use lighthaul_io::fs::meta::Meta;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;

use crate::error::{Code, Error};
use crate::files::verb::{Answer, Kind, Listed, Verb};
use crate::receive::special;

/// Where files may be listed and changed.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Nothing outside can be reached.
    pub ground: &'a Ground,
    /// Whether anything may be changed.
    pub writable: bool,
    /// Whether devices, FIFOs and sockets may be removed.
    pub special: bool,
}

/// Does what `verb` says and hands every piece of the answer to `say`. What fails is part of the answer,
/// and the rest is done; an error is returned only if nothing can be, or if `say` fails.
pub fn work(
    scope: Scope<'_>,
    verb: &Verb,
    say: &mut dyn FnMut(Answer) -> Result<(), Error>,
) -> Result<u64, Error> {
    if verb.changes() && !scope.writable {
        let text = "nothing may be changed there: it is served read-only to this key";
        return Err(Error::new(Code::Permission, text));
    }
    let clock = Clock::start();
    let mut worker = Worker {
        ground: scope.ground,
        special: scope.special,
        say,
        clock,
        said: clock.now(),
        listed: Vec::new(),
        listed_bytes: 0,
        done: 0,
        unsynced: None,
    };
    match verb {
        Verb::List { path, hidden } => worker.list(path, *hidden)?,
        Verb::Stat(paths) => worker.each(paths, Worker::stat)?,
        Verb::Remove { paths, recursive } => {
            worker.each(paths, |worker, path| worker.remove(path, *recursive))?;
        }
        Verb::Make { paths, parents } => {
            worker.each(paths, |worker, path| worker.make(path, *parents))?;
        }
    }
    worker.sync()?;
    worker.flush()?;
    let done = worker.done;
    (worker.say)(Answer::Done(done))?;
    Ok(done)
}

struct Worker<'a> {
    ground: &'a Ground,
    special: bool,
    say: &'a mut dyn FnMut(Answer) -> Result<(), Error>,
    clock: Clock,
    said: Instant,
    listed: Vec<Listed>,
    listed_bytes: usize,
    done: u64,
    /// Folder whose names have changed since it was synced, and its path.
    unsynced: Option<(PathBuf, Folder)>,
}

impl Worker<'_> {
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

    fn list(&mut self, path: &[u8], hidden: bool) -> Result<(), Error> {
        let path = Path::new(OsStr::from_bytes(path));
        let mut folder = match self.ground.folder(path) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotADirectory => return self.stat(path),
            Err(error) => return self.fail("cannot list", path, &error),
        };
        loop {
            let names = match folder.names(NAMES_MAX) {
                Ok(names) => names,
                Err(error) => return self.fail("cannot list", path, &error),
            };
            if names.is_empty() {
                return Ok(());
            }
            let hides = |name: &OsString| !hidden && name.as_bytes().starts_with(b".");
            for name in names.into_iter().filter(|name| !hides(name)) {
                match listed(&folder, &name, name.as_bytes()) {
                    Ok(listed) => self.add(listed)?,
                    // it went between being named and being looked at
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => self.fail("cannot look at", &path.join(&name), &error)?,
                }
            }
            self.stir()?;
        }
    }

    fn stat(&mut self, path: &Path) -> Result<(), Error> {
        let octets = path.as_os_str().as_bytes();
        let found = match self.ground.parent(path) {
            Ok(Some((folder, name))) => listed(&folder, name, octets),
            // the root itself, or a path of dots
            Ok(None) => self
                .ground
                .folder(path)
                .and_then(|folder| listed(&folder, OsStr::new("."), octets)),
            Err(error) => Err(error),
        };
        match found {
            Ok(listed) => self.add(listed),
            Err(error) => self.fail("cannot look at", path, &error),
        }
    }

    fn make(&mut self, path: &Path, parents: bool) -> Result<(), Error> {
        let mut made = PathBuf::new();
        for part in path.components().filter(|_| parents) {
            made.push(part);
            if made == path {
                break;
            }
            // what cannot be made here will be missing below
            if let Ok(Some((folder, name))) = self.ground.parent(&made)
                && folder.make(name).is_ok()
            {
                self.changed(folder, &made)?;
            }
        }
        let result = match self.ground.parent(path) {
            Ok(Some((folder, name))) => {
                let result = folder.make(name).or_else(|error| {
                    let is_there = error.kind() == ErrorKind::AlreadyExists && parents;
                    if is_there && self.ground.folder(path).is_ok() {
                        Ok(())
                    } else {
                        Err(error)
                    }
                });
                self.changed(folder, path)?;
                result
            }
            Ok(None) if parents => self.ground.folder(path).map(|_| ()),
            Ok(None) => Err(ErrorKind::AlreadyExists.into()),
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => self.advance(),
            Err(error) => self.fail("cannot make the folder", path, &error),
        }
    }

    fn remove(&mut self, path: &Path, recursive: bool) -> Result<(), Error> {
        match self.ground.parent(path) {
            Ok(Some((folder, name))) => {
                self.remove_from(&folder, name, path, recursive.then_some(DEPTH_MAX))?;
                self.changed(folder, path)
            }
            Ok(None) => {
                let text = format!(
                    "{} is not removed: it is a root or a path of dots",
                    path.display()
                );
                self.say(Answer::Failed(Code::Usage as u8, text))
            }
            Err(error) => self.fail("cannot remove", path, &error),
        }
    }

    /// Removes `name` in `folder`, which people call `path`; what is in a folder goes first, through so
    /// many `levels`.
    fn remove_from(
        &mut self,
        folder: &Folder,
        name: &OsStr,
        path: &Path,
        levels: Option<usize>,
    ) -> Result<(), Error> {
        interrupt::check()?;
        let there = folder.look(name).ok().filter(|_| !self.special);
        if let Some(what) = there.and_then(|meta| special(meta.kind)) {
            let text = format!(
                "{} is not removed: it is a {what}, and your key may remove none there (`lighthaul allow --special`)",
                path.display()
            );
            return self.say(Answer::Failed(Code::Permission as u8, text));
        }
        let error = match folder.remove(name) {
            Ok(()) => return self.advance(),
            // some systems say "not permitted" of folders
            Err(error) => error,
        };
        let is_folder = folder.look(name).is_ok_and(|meta| meta.kind.is_dir());
        if !is_folder {
            return self.fail("cannot remove", path, &error);
        }
        let Some(levels) = levels else {
            let text = format!(
                "{} is a folder: remove it with -r, and all that is in it",
                path.display()
            );
            return self.say(Answer::Failed(Code::Usage as u8, text));
        };
        if levels == 0 {
            let text = format!(
                "{} is not removed: folders go {DEPTH_MAX} deep above it",
                path.display()
            );
            return self.say(Answer::Failed(Code::Io as u8, text));
        }
        let mut inner = match folder.enter(name) {
            Ok(inner) => inner,
            Err(error) => return self.fail("cannot remove", path, &error),
        };
        loop {
            let names = match inner.names(NAMES_MAX) {
                Ok(names) => names,
                Err(error) => return self.fail("cannot remove", path, &error),
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
            Err(error) => self.fail("cannot remove", path, &error),
        }
    }

    /// Names in `folder`, where `path` is, have changed: it is synced once another folder is, or when all is done.
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

    /// Brings to disk what has changed. The names of a folder that is gone went before its own name did.
    fn sync(&mut self) -> Result<(), Error> {
        let Some((path, folder)) = self.unsynced.take() else {
            return Ok(());
        };
        match folder.sync() {
            Ok(()) => Ok(()),
            Err(error) => self.fail("cannot sync", &path, &error),
        }
    }

    fn add(&mut self, listed: Listed) -> Result<(), Error> {
        self.listed_bytes += listed.path.len() + size_of::<Listed>();
        if let Kind::Link(says) = &listed.kind {
            self.listed_bytes += says.len();
        }
        self.listed.push(listed);
        if self.listed_bytes >= PIECE_BYTES {
            self.flush()?;
        }
        self.advance()
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.listed.is_empty() {
            return Ok(());
        }
        self.listed_bytes = 0;
        let listed = mem::take(&mut self.listed);
        self.say(Answer::Listed(listed))
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.done += 1;
        self.stir()
    }

    /// Lets whoever waits know that the work goes on.
    fn stir(&mut self) -> Result<(), Error> {
        if self.clock.now().since(self.said) < STIR {
            return Ok(());
        }
        interrupt::check()?;
        self.flush()?;
        self.say(Answer::Busy(self.done))
    }

    fn fail(&mut self, what: &str, path: &Path, error: &io::Error) -> Result<(), Error> {
        let error = if leaves_root(error) {
            Error::new(
                Code::Permission,
                format!("{} leaves the root", path.display()),
            )
        } else {
            Error::file(Code::Open, what, path, error)
        };
        self.say(Answer::Failed(error.code as u8, error.text))
    }

    fn say(&mut self, answer: Answer) -> Result<(), Error> {
        self.said = self.clock.now();
        (self.say)(answer)
    }
}

/// What `name` in `folder` is, listed under `path`.
fn listed(folder: &Folder, name: &OsStr, path: &[u8]) -> io::Result<Listed> {
    let Meta {
        kind,
        size,
        mode,
        user,
        group,
        seconds,
        nanos,
        ..
    } = folder.look(name)?;
    let kind = if kind.is_file() {
        Kind::File
    } else if kind.is_dir() {
        Kind::Folder
    } else if kind.is_symlink() {
        Kind::Link(folder.link(name)?.into_vec())
    } else {
        Kind::Other
    };
    Ok(Listed {
        path: path.to_vec(),
        kind,
        size,
        mode,
        user,
        group,
        seconds,
        nanos,
    })
}

/// Names of a folder that are held at a time.
const NAMES_MAX: usize = 1000;
/// An answer is said when it has about so many bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Something is said at least this often while the work goes on.
const STIR: Duration = Duration::from_secs(1);
/// Folders in folders that are removed: each holds a descriptor until it is empty.
const DEPTH_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_changed_where_nothing_may_be() {
        let ground = Ground::anywhere();
        let scope = Scope {
            ground: &ground,
            writable: false,
            special: false,
        };
        let paths = vec![b"lighthaul-is-not-made".to_vec()];
        let verbs = [
            Verb::Make {
                paths: paths.clone(),
                parents: true,
            },
            Verb::Remove {
                paths,
                recursive: true,
            },
        ];
        for verb in verbs {
            let mut say = |answer| panic!("{answer:?}");
            let error = work(scope, &verb, &mut say).unwrap_err();
            assert_eq!(error.code, Code::Permission);
        }
        assert!(!Path::new("lighthaul-is-not-made").exists());
        let verb = Verb::Stat(vec![b".".to_vec()]);
        assert_eq!(work(scope, &verb, &mut |_| Ok(())), Ok(1));
    }
}
