//! From the paths that somebody named to entries, one after the other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec::IntoIter;

use lighthaul_io::ground::{Folder, Ground, Meta};
use rustix::fs::FileType;

use crate::error::{Code, Error};
use crate::manifest::{Entry, Kind};

/// Names of a folder that are held, and put in order, at a time.
const NAMES_MAX: usize = 1 << 16;
/// How deep folders may lie in each other: no path is longer.
const DEPTH_MAX: usize = 2048;

/// Something that was found.
#[derive(Debug)]
pub enum Found {
    /// An entry, and where it is here.
    Entry(Entry, PathBuf),
    /// Something that is left out, and why.
    Skipped(String),
    /// An entry that cannot be read.
    Failed(Error),
}

/// Goes through sources, the contents of a folder right behind it, and holds no more than the names of
/// the folders it is in.
#[derive(Debug)]
pub struct Walk {
    ground: Arc<Ground>,
    sources: IntoIter<PathBuf>,
    /// Whether entries are named after their source, rather than being the contents of one folder.
    pub named: bool,
    stack: Vec<Level>,
}

/// A folder that the walk is in.
#[derive(Debug)]
struct Level {
    folder: Folder,
    names: IntoIter<OsString>,
    place: PathBuf,
    /// Its path among the entries; empty at the top.
    path: Vec<u8>,
    /// What to say when it is over.
    leave: Option<Entry>,
}

impl Walk {
    /// A walk through `sources`; a folder written with a slash at its end stands for its contents.
    pub fn new(ground: Arc<Ground>, sources: Vec<PathBuf>) -> Result<Self, Error> {
        let mut names: Vec<OsString> = Vec::new();
        let mut named = true;
        for source in &sources {
            let opening = |error| Error::file(Code::Open, "cannot open", source, &error);
            if source.as_os_str().as_bytes().ends_with(b"/") {
                ground.folder(source).map_err(opening)?;
                if sources.len() > 1 {
                    let text = format!(
                        "{} means the contents of a folder, which only goes alone: copy it by itself, or drop the slash",
                        source.display()
                    );
                    return Err(Error::new(Code::Usage, text));
                }
                named = false;
                continue;
            }
            look(&ground, source).map_err(opening)?;
            let name = ground.name(source).map_err(|_| {
                let text = format!(
                    "{0} has no name: write it as {0}/ for its contents",
                    source.display()
                );
                Error::new(Code::Usage, text)
            })?;
            if names.contains(&name) {
                let name = name.display();
                let text = format!("two sources are called {name}: copy them one at a time");
                return Err(Error::new(Code::Usage, text));
            }
            names.push(name);
        }
        let mut walk = Self {
            ground,
            sources: sources.into_iter(),
            named,
            stack: Vec::new(),
        };
        if !named && let Some(source) = walk.sources.next() {
            let opening = |error| Error::file(Code::Open, "cannot read", &source, &error);
            let folder = walk.ground.folder(&source).map_err(opening)?;
            walk.enter(folder, source.clone(), Vec::new(), None);
        }
        Ok(walk)
    }

    /// Where it finds things.
    pub(crate) fn ground(&self) -> Arc<Ground> {
        Arc::clone(&self.ground)
    }

    fn enter(&mut self, folder: Folder, place: PathBuf, path: Vec<u8>, leave: Option<Entry>) {
        self.stack.push(Level {
            folder,
            names: Vec::new().into_iter(),
            place,
            path,
            leave,
        });
    }

    /// A source by its name.
    fn source(&mut self, source: &Path) -> Found {
        let found = look(&self.ground, source).and_then(|(meta, link)| {
            let name = self.ground.name(source)?;
            Ok((meta, link, name))
        });
        match found {
            Ok((meta, link, name)) => {
                self.found(source.to_owned(), name.as_bytes().to_vec(), meta, link)
            }
            Err(error) => missed(source, &error),
        }
    }

    /// What is called `name` in the folder that the walk is in.
    fn item(&mut self, name: &OsStr) -> Option<Found> {
        let level = self.stack.last()?;
        let place = level.place.join(name);
        let mut path = level.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        let look = level.folder.look(name).and_then(|meta| {
            let link = meta.kind == FileType::Symlink;
            Ok((meta, link.then(|| level.folder.link(name)).transpose()?))
        });
        Some(match look {
            Ok((meta, link)) => self.found(place, path, meta, link),
            Err(error) => missed(&place, &error),
        })
    }

    fn found(
        &mut self,
        place: PathBuf,
        path: Vec<u8>,
        meta: Meta,
        link: Option<OsString>,
    ) -> Found {
        let kind = match (meta.kind, link) {
            (FileType::Directory, _) => Kind::Folder,
            (FileType::RegularFile, _) => Kind::File(meta.size),
            (_, Some(link)) => Kind::Link(link.as_bytes().to_vec()),
            (kind, None) => {
                let text = format!("{} is a {}, not copied", place.display(), name_of(kind));
                return Found::Skipped(text);
            }
        };
        let folder = kind == Kind::Folder;
        let entry = Entry {
            path,
            kind,
            mode: meta.mode,
            seconds: meta.seconds,
            nanos: meta.nanos,
        };
        if !folder {
            return Found::Entry(entry, place);
        }
        if self.stack.len() >= DEPTH_MAX {
            let text = format!("{} lies too deep", place.display());
            return Found::Failed(Error::new(Code::Open, text));
        }
        match self.ground.folder(&place) {
            Ok(folder) => {
                let leave = Entry {
                    kind: Kind::Leave,
                    ..entry.clone()
                };
                self.enter(folder, place.clone(), entry.path.clone(), Some(leave));
                Found::Entry(entry, place)
            }
            Err(error) => Found::Failed(Error::file(Code::Open, "cannot read", &place, &error)),
        }
    }

    /// The next name in the folder that the walk is in; the end of that folder if there is none.
    fn next_in(level: &mut Level) -> Result<Option<OsString>, Error> {
        if let Some(name) = level.names.next() {
            return Ok(Some(name));
        }
        let names = level
            .folder
            .names(NAMES_MAX)
            .map_err(|error| Error::file(Code::Open, "cannot read", &level.place, &error))?;
        level.names = names.into_iter();
        Ok(level.names.next())
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let Some(level) = self.stack.last_mut() else {
                let source = self.sources.next()?;
                return Some(self.source(&source));
            };
            match Self::next_in(level) {
                Ok(Some(name)) => return self.item(&name),
                Ok(None) => {
                    let left = self.stack.pop()?;
                    if let Some(leave) = left.leave {
                        return Some(Found::Entry(leave, left.place));
                    }
                }
                Err(error) => {
                    // it is over, and its end is told next
                    level.folder.exhaust();
                    return Some(Found::Failed(error));
                }
            }
        }
    }
}

fn look(ground: &Ground, source: &Path) -> std::io::Result<(Meta, Option<OsString>)> {
    match ground.parent(source)? {
        Some((folder, name)) => {
            let meta = folder.look(name)?;
            let link = meta.kind == FileType::Symlink;
            Ok((meta, link.then(|| folder.link(name)).transpose()?))
        }
        None => {
            let meta = ground.folder(source)?.look(OsStr::new("."))?;
            Ok((meta, None))
        }
    }
}

fn missed(place: &Path, error: &std::io::Error) -> Found {
    if error.kind() == std::io::ErrorKind::NotFound {
        let text = format!("{} vanished before it was read", place.display());
        Found::Failed(Error::new(Code::Changed, text))
    } else {
        Found::Failed(Error::file(Code::Open, "cannot read", place, error))
    }
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "thing of no known kind",
    }
}
