//! From the paths that somebody named to entries, one after the other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec::IntoIter;

use lighthaul_io::fs::ground::{Folder, Ground};
use lighthaul_io::fs::meta::Meta;
use rustix::fs::FileType;

use crate::error::{Code, Error};
use crate::filter::{Rules, Verdict};
use crate::manifest::{Entry, Kind, Linked, PATH_MAX};
use crate::receive::names::is_hidden;

/// Names of a folder that are held, and put in order, at a time.
const NAMES_MAX: usize = 1 << 16;
/// How deep folders may lie in each other: no path is longer.
const DEPTH_MAX: usize = 2048;
/// Folders that are open at a time, those that the walk is in last.
const OPEN_MAX: usize = 32;

/// Something that was found.
#[derive(Debug)]
pub enum Found {
    /// An entry, where it is here, and what it is like if it is a file.
    Entry(Entry, PathBuf, Option<Meta>),
    /// Something that is left out, and why.
    Skipped(String),
    /// Something that whoever copies should know.
    Noted(String),
    /// An entry that a rule leaves out, and which.
    Excluded(Vec<u8>, String),
    /// An entry that cannot be read, and its path.
    Failed(Vec<u8>, Error),
}

/// Goes through sources, the contents of a folder right behind it, and holds no more than the names of
/// the folders it is in.
#[derive(Debug)]
pub struct Walk {
    ground: Arc<Ground>,
    /// What is to come, with its path among the entries.
    sources: IntoIter<(PathBuf, Vec<u8>)>,
    /// Whether entries are named after their source, rather than being the contents of one folder.
    pub named: bool,
    rules: Rules,
    stack: Vec<Level>,
}

/// A folder that the walk is in.
#[derive(Debug)]
struct Level {
    /// Closed while the walk is far below.
    folder: Option<Folder>,
    /// Number of times that names were read.
    reads: usize,
    /// There are no more, say since reading them failed.
    is_over: bool,
    names: IntoIter<OsString>,
    place: PathBuf,
    /// Its path among the entries; empty at the top.
    path: Vec<u8>,
    /// What to say when it is over.
    leave: Option<Entry>,
}

impl Walk {
    /// A walk through what is at `place`, whose path among the entries is `path`, as far as `rules` let it.
    pub(crate) fn at(ground: Arc<Ground>, place: PathBuf, path: Vec<u8>, rules: Rules) -> Self {
        Self {
            ground,
            sources: vec![(place, path)].into_iter(),
            named: false,
            rules,
            stack: Vec::new(),
        }
    }

    /// A walk through `sources`; a folder written with a slash at its end stands for its contents.
    pub fn new(ground: Arc<Ground>, sources: &[PathBuf], rules: Rules) -> Result<Self, Error> {
        let mut names: Vec<OsString> = Vec::new();
        let mut named_sources = Vec::new();
        let mut named = true;
        for source in sources {
            let opening = |error| Error::file(Code::Open, "cannot open", source, &error);
            if source.as_os_str().as_bytes().ends_with(b"/") {
                ground.folder(source).map_err(opening)?;
                if sources.len() > 1 {
                    let text = format!(
                        "{} means the contents of a folder, which only goes alone: copy it by itself, or name the folder",
                        source.display()
                    );
                    return Err(Error::new(Code::Usage, text));
                }
                named = false;
                named_sources.push((source.clone(), Vec::new()));
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
            named_sources.push((source.clone(), name.as_bytes().to_vec()));
            names.push(name);
        }
        let mut walk = Self {
            ground,
            sources: named_sources.into_iter(),
            named,
            rules,
            stack: Vec::new(),
        };
        if !named && let Some((source, _)) = walk.sources.next() {
            let opening = |error| Error::file(Code::Open, "cannot read", &source, &error);
            let folder = walk.ground.folder(&source).map_err(opening)?;
            let meta = folder.look(OsStr::new(".")).map_err(opening)?;
            let leave = entry(Vec::new(), Kind::Leave, &meta);
            walk.enter(folder, source.clone(), Vec::new(), Some(leave));
        }
        Ok(walk)
    }

    /// The folder whose contents it goes through, if that is what it does.
    pub(crate) fn top(&self) -> Option<PathBuf> {
        let level = self.stack.first();
        level.map(|level| level.place.clone())
    }

    /// Where it finds things.
    pub(crate) fn ground(&self) -> Arc<Ground> {
        Arc::clone(&self.ground)
    }

    fn enter(&mut self, folder: Folder, place: PathBuf, path: Vec<u8>, leave: Option<Entry>) {
        if let Some(above) = self.stack.len().checked_sub(OPEN_MAX) {
            self.stack[above].folder = None;
        }
        self.stack.push(Level {
            folder: Some(folder),
            reads: 0,
            is_over: false,
            names: Vec::new().into_iter(),
            place,
            path,
            leave,
        });
    }

    /// A source by its name.
    fn source(&mut self, source: PathBuf, path: Vec<u8>) -> Found {
        match look(&self.ground, &source) {
            Ok((meta, link)) => self.found(source, path, meta, link),
            Err(error) => {
                let error = Error::file(Code::Open, "cannot open", &source, &error);
                Found::Failed(path, error)
            }
        }
    }

    /// What is called `name` in the folder that the walk is in.
    fn item(&mut self, name: &OsStr) -> Option<Found> {
        let level = self.stack.last()?;
        let place = level.place.join(name);
        if is_hidden(name) {
            let place = place.display();
            let text = format!("{place} is what a copy to there leaves until it has ended");
            return Some(Found::Skipped(text));
        }
        let mut path = level.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        let folder = level.folder.as_ref()?;
        let look = folder.look(name).and_then(|meta| {
            let link = meta.kind == FileType::Symlink;
            Ok((meta, link.then(|| folder.link(name)).transpose()?))
        });
        Some(match look {
            Ok((meta, link)) => self.found(place, path, meta, link),
            Err(error) => missed(path, &place, &error),
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
        if let Verdict::Leave(rule) = self.rules.verdict(&path, folder) {
            let rule = rule.to_string();
            return Found::Excluded(path, rule);
        }
        if path.len() > PATH_MAX {
            let text = format!("{} has a longer path than Linux opens", place.display());
            return Found::Failed(path, Error::new(Code::Open, text));
        }
        let entry = entry(path, kind, &meta);
        if !folder {
            return Found::Entry(entry, place, Some(meta));
        }
        if self.stack.len() >= DEPTH_MAX {
            let text = format!("{} lies too deep", place.display());
            return Found::Failed(entry.path, Error::new(Code::Open, text));
        }
        match self.ground.folder(&place) {
            Ok(folder) => {
                let leave = Entry {
                    kind: Kind::Leave,
                    ..entry.clone()
                };
                self.enter(folder, place.clone(), entry.path.clone(), Some(leave));
                Found::Entry(entry, place, None)
            }
            Err(error) => {
                let error = Error::file(Code::Open, "cannot read", &place, &error);
                Found::Failed(entry.path, error)
            }
        }
    }

    /// The next name in the folder that the walk is in; the end of that folder if there is none.
    fn next_in(ground: &Ground, level: &mut Level) -> Result<Option<OsString>, Error> {
        if level.is_over {
            return Ok(None);
        }
        let place = level.place.clone();
        let failed = |error| Error::file(Code::Open, "cannot read", &place, &error);
        if level.folder.is_none() {
            level.folder = Some(level.reopened(ground).map_err(failed)?);
        }
        if let Some(name) = level.names.next() {
            return Ok(Some(name));
        }
        if let Some(folder) = &mut level.folder {
            level.reads += 1;
            let names = folder.names(NAMES_MAX);
            level.names = names.map_err(failed)?.into_iter();
        }
        Ok(level.names.next())
    }
}

impl Level {
    /// Opens the folder again, which was closed to go deeper, where its names were read up to.
    fn reopened(&self, ground: &Ground) -> std::io::Result<Folder> {
        let mut folder = ground.folder(&self.place)?;
        for _ in 0..self.reads {
            folder.names(NAMES_MAX)?;
        }
        Ok(folder)
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let Some(level) = self.stack.last_mut() else {
                let (source, path) = self.sources.next()?;
                return Some(self.source(source, path));
            };
            match Self::next_in(&self.ground, level) {
                Ok(Some(name)) => return self.item(&name),
                Ok(None) => {
                    let left = self.stack.pop()?;
                    if let Some(leave) = left.leave {
                        return Some(Found::Entry(leave, left.place, None));
                    }
                }
                Err(error) => {
                    // it is over, and its end is told next
                    level.is_over = true;
                    let path = level.path.clone();
                    return Some(Found::Failed(path, error));
                }
            }
        }
    }
}

/// What is listed at `path`, which is like `meta`.
const fn entry(path: Vec<u8>, kind: Kind, meta: &Meta) -> Entry {
    Entry {
        path,
        kind,
        mode: meta.mode,
        seconds: meta.seconds,
        nanos: meta.nanos,
        digest: None,
        extras: None,
        data: None,
        linked: Linked::Alone,
    }
}

fn look(ground: &Ground, source: &Path) -> std::io::Result<(Meta, Option<OsString>)> {
    let Some((folder, name)) = ground.parent(source)? else {
        return Ok((ground.folder(source)?.look(OsStr::new("."))?, None));
    };
    let meta = folder.look(name)?;
    let link = meta.kind == FileType::Symlink;
    Ok((meta, link.then(|| folder.link(name)).transpose()?))
}

fn missed(path: Vec<u8>, place: &Path, error: &std::io::Error) -> Found {
    if error.kind() == std::io::ErrorKind::NotFound {
        let text = format!("{} vanished before it was read", place.display());
        Found::Failed(path, Error::new(Code::Changed, text))
    } else {
        Found::Failed(path, Error::file(Code::Open, "cannot read", place, error))
    }
}

fn name_of(kind: FileType) -> &'static str {
    if kind == FileType::Fifo {
        "pipe"
    } else if kind == FileType::Socket {
        "socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "device"
    } else {
        "thing of no known kind"
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_deep_tree_is_walked_whole_with_few_folders_open() {
        const DEPTH: usize = 3 * OPEN_MAX;
        let top = std::env::temp_dir().join(format!("lighthaul-walk-{}", std::process::id()));
        let mut folder = top.clone();
        for _ in 0..DEPTH {
            folder.push("m");
            fs::create_dir_all(&folder).unwrap();
            // what comes before the way down, and what comes behind it
            for name in ["a", "z"] {
                fs::write(folder.join(name), name).unwrap();
            }
        }
        let ground = Arc::new(Ground::anywhere());
        let mut walk = Walk::at(ground, top.clone(), b"top".to_vec(), Rules::default());
        let (mut names, mut most) = (Vec::new(), 0);
        while let Some(found) = walk.next() {
            let Found::Entry(entry, ..) = found else {
                panic!("{found:?}");
            };
            if matches!(entry.kind, Kind::File(_)) {
                names.push(entry.path);
            }
            let open = walk.stack.iter().filter(|level| level.folder.is_some());
            most = most.max(open.count());
        }
        fs::remove_dir_all(top).unwrap();
        assert!(names.is_sorted() && most <= OPEN_MAX + 1, "{most}");
        names.dedup();
        assert_eq!(names.len(), 2 * DEPTH);
    }
}
