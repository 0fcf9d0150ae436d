//! Walk of file trees: entries below given paths, one by one.
//!
//! [`Walk`] is the iterator that a sender lists, and that finds what `--delete` may remove. The
//! contents of a directory follow their directory, and its end is an entry of its own. Memory holds
//! only the names of the directories on the current path. Symbolic links are never followed, so a
//! tree that changes during the walk cannot lead it outside: each directory is opened from the one
//! above, and a directory that is opened again by its path must be the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec::IntoIter;

use lighthaul_fs::file_access::{FileAccess, Folder};
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::{Error, FileAction};
use rustix::fs::FileType;

use crate::error::Fault;
use crate::filter::{Decision, Rules};
use crate::manifest::{Entry, EntryKind, Linked, PATH_MAX};
use crate::naming::Naming;
use crate::temp_names::is_hidden;

/// Names of a directory that are read and sorted at a time.
const NAMES_MAX: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };
/// Deepest nesting of directories: no path is longer.
const DEPTH_MAX: usize = 2048;
/// Maximum number of open directories; the deepest directories of the walk are kept open.
const OPEN_MAX: usize = 32;
/// Maximum number of further open directories, whose names were not all read.
const UNREAD_MAX: usize = 64;

/// Item that a walk found.
#[derive(Debug)]
pub enum Found {
    /// Entry, its local path, and its metadata if it is a file or link.
    Entry(Entry, PathBuf, Option<Meta>),
    /// Directory on another file system, whose contents are left out, and its local path.
    Mount(Entry, PathBuf),
    /// Item that is skipped, with the reason.
    Skipped(String),
    /// Message for the user.
    Noted(String),
    /// Entry that a rule excludes, and the rule.
    Excluded(Vec<u8>, String),
    /// Path of an entry that cannot be read, and the error.
    Failed(Vec<u8>, Error),
}

/// Options of a walk.
#[derive(Clone, Debug, Default)]
pub struct WalkOptions {
    /// Rules that select files.
    pub rules: Rules,
    /// Stays on the file system of each source.
    pub one_file_system: bool,
}

impl From<Rules> for WalkOptions {
    fn from(rules: Rules) -> Self {
        Self {
            rules,
            one_file_system: false,
        }
    }
}

/// Walk of sources. The contents of a directory follow the directory. Memory holds only the names in the
/// current directories.
#[derive(Debug)]
pub struct Walk {
    access: Arc<FileAccess>,
    /// Remaining sources, with their paths among the entries.
    sources: IntoIter<(PathBuf, Vec<u8>)>,
    /// Names of the entries.
    pub naming: Naming,
    options: WalkOptions,
    /// Device of the current source, after it was examined.
    device: Option<u64>,
    stack: Vec<Level>,
}

/// Directory on the current path of the walk.
#[derive(Debug)]
struct Level {
    /// Directory, which is closed while the walk is far below.
    folder: Option<Folder>,
    /// Number of times that names were read.
    reads: usize,
    /// True if all names were read.
    is_read: bool,
    /// True if there are no more names, for example because reading them failed.
    is_over: bool,
    names: IntoIter<OsString>,
    place: PathBuf,
    /// Path among the entries; empty at the top.
    path: Vec<u8>,
    /// Entry for the end of the directory.
    leave: Option<Entry>,
    /// Device and number of the inode.
    inode: (u64, u64),
    /// Last status change before names were read, nanoseconds since 1970.
    changed: i64,
}

impl Walk {
    /// Creates a walk of `place`, whose path among the entries is `path`.
    pub fn at(
        access: Arc<FileAccess>,
        place: PathBuf,
        path: Vec<u8>,
        options: impl Into<WalkOptions>,
    ) -> Self {
        Self {
            access,
            sources: vec![(place, path)].into_iter(),
            naming: Naming::Contents,
            options: options.into(),
            device: None,
            stack: Vec::new(),
        }
    }

    /// Creates a walk of `sources`. A directory with a slash at its end stands for its contents.
    pub fn new(
        access: Arc<FileAccess>,
        sources: &[PathBuf],
        options: impl Into<WalkOptions>,
    ) -> Result<Self, Error> {
        let mut names: Vec<OsString> = Vec::new();
        let mut named_sources = Vec::new();
        let mut is_folder = false;
        for source in sources {
            let opening = |error| Error::file(FileAction::Open, source, &error);
            if source.as_os_str().as_bytes().ends_with(b"/") {
                access.folder(source).map_err(opening)?;
                if sources.len() > 1 {
                    return Err(Fault::SeveralContents(source.clone()).into());
                }
                named_sources.push((source.clone(), Vec::new()));
                continue;
            }
            let (meta, _) = inspect(&access, source).map_err(opening)?;
            is_folder = meta.kind == FileType::Directory;
            let name = access
                .name(source)
                .map_err(|_| Fault::Nameless(source.clone()))?;
            if names.contains(&name) {
                return Err(Fault::SameName(name).into());
            }
            named_sources.push((source.clone(), name.as_bytes().to_vec()));
            names.push(name);
        }
        let naming = match (names.len(), is_folder) {
            (0, _) => Naming::Contents,
            (1, true) => Naming::Folder,
            (1, false) => Naming::File,
            _ => Naming::Several,
        };
        let mut walk = Self {
            access,
            sources: named_sources.into_iter(),
            naming,
            options: options.into(),
            device: None,
            stack: Vec::new(),
        };
        if !naming.is_named()
            && let Some((source, _)) = walk.sources.next()
        {
            let opening = |error| Error::file(FileAction::Open, &source, &error);
            let folder = walk.access.folder(&source).map_err(opening)?;
            let meta = folder.look(OsStr::new(".")).map_err(opening)?;
            let leave = entry(Vec::new(), EntryKind::FolderEnd, &meta);
            walk.device = Some(meta.inode.0);
            walk.enter(folder, source.clone(), leave, &meta);
        }
        Ok(walk)
    }

    /// Returns the directory whose contents are walked, if any.
    pub fn top(&self) -> Option<PathBuf> {
        let level = self.stack.first();
        level.map(|level| level.place.clone())
    }

    /// Returns the part of the file system that is walked.
    pub fn access(&self) -> Arc<FileAccess> {
        Arc::clone(&self.access)
    }

    /// Enters a directory; `entry` is sent at its end.
    fn enter(&mut self, folder: Folder, place: PathBuf, leave: Entry, meta: &Meta) {
        if let Some(above) = self.stack.len().checked_sub(OPEN_MAX) {
            let unread = self.stack[..above]
                .iter()
                .filter(|level| level.folder.is_some());
            if self.stack[above].is_read || unread.count() >= UNREAD_MAX {
                self.stack[above].folder = None;
            }
        }
        let is_over = self.is_elsewhere(meta);
        // opening a directory may mount another file system there
        let opened = folder.look(OsStr::new("."));
        let Meta { inode, changed, .. } = opened.unwrap_or(*meta);
        self.stack.push(Level {
            folder: Some(folder),
            reads: 0,
            is_read: false,
            is_over,
            names: Vec::new().into_iter(),
            place,
            path: leave.path.clone(),
            leave: Some(leave),
            inode,
            changed,
        });
    }

    /// Returns true if the walk must not enter a directory, since it is on another file system.
    fn is_elsewhere(&self, meta: &Meta) -> bool {
        self.options.one_file_system && self.device.is_some_and(|device| device != meta.inode.0)
    }

    /// Returns the item at a source.
    fn source(&mut self, source: PathBuf, path: Vec<u8>) -> Found {
        match inspect(&self.access, &source) {
            Ok((meta, link)) => {
                self.device = Some(meta.inode.0);
                self.found(source, path, meta, link)
            }
            Err(error) => {
                let error = Error::file(FileAction::Open, &source, &error);
                Found::Failed(path, error)
            }
        }
    }

    /// Returns the item `name` of the current directory.
    fn item(&mut self, name: &OsStr) -> Option<Found> {
        let level = self.stack.last()?;
        let place = level.place.join(name);
        if is_hidden(name) {
            let place = place.display();
            let text =
                format!("{place} is a temporary file of an unfinished copy to that directory");
            return Some(Found::Skipped(text));
        }
        let mut path = level.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        let folder = level.folder.as_ref()?;
        let look = folder.look(name).and_then(|meta| {
            if meta.kind != FileType::Symlink {
                return Ok((meta, None));
            }
            if self.access.follows() {
                return Ok((self.access.look_through(&place)?, None));
            }
            Ok((meta, Some(folder.link(name)?)))
        });
        Some(match look {
            Err(error) if self.access.follows() => {
                let error = Error::file(FileAction::Open, &place, &error);
                Found::Failed(path, error)
            }
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
            (FileType::Directory, _) => EntryKind::Folder,
            (FileType::RegularFile, _) => EntryKind::File(meta.size),
            (_, Some(link)) => EntryKind::Link(link.as_bytes().to_vec()),
            (kind, None) => {
                let text = format!("{} is a {}", place.display(), name_of(kind));
                return Found::Skipped(text);
            }
        };
        let folder = kind == EntryKind::Folder;
        if let Decision::Exclude(rule) = self.options.rules.decide(&path, folder) {
            let rule = rule.to_string();
            return Found::Excluded(path, rule);
        }
        if path.len() > PATH_MAX {
            return Found::Failed(path, Fault::PathTooLong(place).into());
        }
        let entry = entry(path, kind, &meta);
        if !folder {
            return Found::Entry(entry, place, Some(meta));
        }
        if self.stack.len() >= DEPTH_MAX {
            return Found::Failed(entry.path, Fault::TooDeep(place).into());
        }
        if self.stack.iter().any(|level| level.inode == meta.inode) {
            return Found::Failed(entry.path, Fault::ContainsItself(place).into());
        }
        match self.open(&place) {
            Ok(folder) => {
                let leave = Entry {
                    kind: EntryKind::FolderEnd,
                    ..entry.clone()
                };
                self.enter(folder, place.clone(), leave, &meta);
                if self.is_elsewhere(&meta) {
                    return Found::Mount(entry, place);
                }
                Found::Entry(entry, place, None)
            }
            Err(error) => {
                let error = Error::file(FileAction::Open, &place, &error);
                Found::Failed(entry.path, error)
            }
        }
    }

    /// Opens the directory at `place`, which is in the current directory or a source. A link that took its place is not
    /// followed.
    fn open(&self, place: &Path) -> std::io::Result<Folder> {
        let above = self.stack.last().and_then(|level| level.folder.as_ref());
        match (above, place.file_name()) {
            (Some(above), Some(name)) if !self.access.follows() => above.enter(name),
            _ => self.access.folder(place),
        }
    }

    /// Returns the next name in the current directory, or none at its end.
    fn next_in(access: &FileAccess, level: &mut Level) -> Result<Option<OsString>, Error> {
        if level.is_over {
            return Ok(None);
        }
        let place = level.place.clone();
        let failed = |error| Error::file(FileAction::Open, &place, &error);
        if level.folder.is_none() {
            level.folder = Some(level.reopened(access).map_err(failed)?);
        }
        if let Some(name) = level.names.next() {
            return Ok(Some(name));
        }
        if let Some(folder) = &mut level.folder
            && !level.is_read
        {
            level.reads += 1;
            let names = folder.names(NAMES_MAX).map_err(failed)?;
            level.is_read = names.len() < NAMES_MAX;
            level.names = names.into_iter();
        }
        Ok(level.names.next())
    }
}

impl Level {
    /// Opens a directory again that was closed, and skips the names that were read. Fails if another directory has its
    /// path, or if its names may have changed, since others would be skipped.
    fn reopened(&self, access: &FileAccess) -> std::io::Result<Folder> {
        let mut folder = access.folder(&self.place)?;
        let there = folder.look(OsStr::new("."))?;
        if there.inode != self.inode {
            let text = "another item took the place of the directory during the walk";
            return Err(std::io::Error::other(text));
        }
        if self.is_read {
            return Ok(folder);
        }
        if there.changed != self.changed {
            let text = "the directory was changed before all of its names were read";
            return Err(std::io::Error::other(text));
        }
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
            match Self::next_in(&self.access, level) {
                Ok(Some(name)) => return self.item(&name),
                Ok(None) => {
                    let left = self.stack.pop()?;
                    if let Some(leave) = left.leave {
                        return Some(Found::Entry(leave, left.place, None));
                    }
                }
                Err(error) => {
                    // the directory ends here; its end follows as the next entry
                    level.is_over = true;
                    let path = level.path.clone();
                    return Some(Found::Failed(path, error));
                }
            }
        }
    }
}

/// Creates the entry at `path` from `meta`.
const fn entry(path: Vec<u8>, kind: EntryKind, meta: &Meta) -> Entry {
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
        mark: None,
    }
}

fn inspect(access: &FileAccess, source: &Path) -> std::io::Result<(Meta, Option<OsString>)> {
    let Some((folder, name)) = access.parent(source)? else {
        return Ok((access.folder(source)?.look(OsStr::new("."))?, None));
    };
    let meta = folder.look(name)?;
    let link = meta.kind == FileType::Symlink;
    if link && access.follows() {
        return Ok((access.look_through(source)?, None));
    }
    Ok((meta, link.then(|| folder.link(name)).transpose()?))
}

fn missed(path: Vec<u8>, place: &Path, error: &std::io::Error) -> Found {
    if error.kind() == std::io::ErrorKind::NotFound {
        Found::Failed(path, Fault::Vanished(place.to_owned()).into())
    } else {
        Found::Failed(path, Error::file(FileAction::Open, place, error))
    }
}

fn name_of(kind: FileType) -> &'static str {
    if kind == FileType::Fifo {
        "FIFO"
    } else if kind == FileType::Socket {
        "socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "device"
    } else {
        "special file of unknown kind"
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a directory for a test, and returns its path.
    fn folder(name: &str) -> PathBuf {
        let name = format!("lighthaul-walk-{name}-{}", std::process::id());
        let top = std::env::temp_dir().join(name);
        fs::remove_dir_all(&top).ok();
        fs::create_dir_all(&top).unwrap();
        top
    }

    fn walk(top: &Path) -> Walk {
        let access = Arc::new(FileAccess::anywhere());
        Walk::at(access, top.to_owned(), b"top".to_vec(), Rules::default())
    }

    /// Returns the paths of the entries and failures that the walk still finds.
    fn rest(walk: &mut Walk) -> (Vec<String>, Vec<String>) {
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let (mut entries, mut failures) = (Vec::new(), Vec::new());
        for found in walk {
            match found {
                Found::Entry(ref entry, ..) => entries.push(text(&entry.path)),
                Found::Failed(ref path, _) => failures.push(text(path)),
                Found::Mount(..) | Found::Skipped(_) | Found::Noted(_) | Found::Excluded(..) => {
                    panic!("{found:?}")
                }
            }
        }
        (entries, failures)
    }

    #[test]
    fn link_that_takes_the_place_of_an_examined_directory_is_not_followed() {
        let top = folder("swapped");
        for path in ["tree/a/in", "tree/b/in", "out/in"] {
            fs::create_dir_all(top.join(path)).unwrap();
        }
        let mut walk = walk(&top.join("tree"));
        assert!(walk.next().is_some());
        // as between the examination of the directory and its opening
        let level = walk.stack.last().unwrap();
        let meta = level.folder.as_ref().unwrap().look(OsStr::new("a"));
        fs::remove_dir_all(top.join("tree/a")).unwrap();
        symlink("../out", top.join("tree/a")).unwrap();
        let place = top.join("tree/a");
        let found = walk.found(place, b"top/a".to_vec(), meta.unwrap(), None);
        assert!(matches!(found, Found::Failed(..)), "{found:?}");
        fs::remove_file(top.join("tree/a")).unwrap();
        // the walk is in the directory that it has opened, wherever that is now
        fs::rename(top.join("tree"), top.join("moved")).unwrap();
        symlink("out", top.join("tree")).unwrap();
        let (entries, failures) = rest(&mut walk);
        assert_eq!(entries, ["top/b", "top/b/in", "top/b/in", "top/b", "top"]);
        assert_eq!(failures, [""; 0]);
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn link_that_takes_the_place_of_a_closed_directory_is_not_followed() {
        let top = folder("reopened");
        let deep = "m/".repeat(2 * OPEN_MAX);
        fs::create_dir_all(top.join("tree").join(deep)).unwrap();
        fs::write(top.join("tree/z"), "").unwrap();
        fs::create_dir_all(top.join("out")).unwrap();
        fs::write(top.join("out/z"), "").unwrap();
        let mut walk = walk(&top.join("tree"));
        while walk.stack.len() < 2 * OPEN_MAX {
            walk.next().unwrap();
        }
        fs::rename(top.join("tree"), top.join("moved")).unwrap();
        symlink("out", top.join("tree")).unwrap();
        let (entries, failures) = rest(&mut walk);
        assert!(!entries.contains(&"top/z".to_owned()));
        assert!(failures.contains(&"top".to_owned()), "{failures:?}");
        fs::remove_dir_all(top).unwrap();
    }

    /// Names that are removed meanwhile must not hide others, which deletion would remove at the target.
    #[test]
    fn large_directory_above_a_deep_tree_loses_no_names() {
        for (unread, fails) in [(0, false), (UNREAD_MAX, true)] {
            let top = folder("large");
            let deep = "m/".repeat(2 * OPEN_MAX);
            // one of them is among the first names
            for name in ["a", "b", "c", "d", "e"] {
                fs::create_dir_all(top.join(name).join(&deep)).unwrap();
            }
            let count = NAMES_MAX + 50;
            for nth in 0..count {
                fs::write(top.join(format!("f{nth:06}")), "").unwrap();
            }
            let mut walk = walk(&top);
            let mut listed = 0;
            while walk.stack.len() < OPEN_MAX {
                walk.next().unwrap();
            }
            if unread > 0 {
                // as many other directories wait for their names
                walk.stack[0].folder = None;
            }
            while walk.stack.len() < 2 * OPEN_MAX {
                walk.next().unwrap();
            }
            // of names that were read
            let level = &walk.stack[0];
            let names = level.names.as_slice().iter();
            let files = names.filter(|name| name.as_bytes().starts_with(b"f"));
            let gone: Vec<_> = files.take(500).cloned().collect();
            for name in &gone {
                fs::remove_file(top.join(name)).unwrap();
            }
            let (entries, failures) = rest(&mut walk);
            listed += entries
                .iter()
                .filter(|path| path.starts_with("top/f"))
                .count();
            assert_eq!(failures.iter().any(|path| path == "top"), fails);
            if !fails {
                assert_eq!(listed, count - gone.len());
            }
            fs::remove_dir_all(top).unwrap();
        }
    }

    #[test]
    fn deep_tree_is_walked_with_few_open_folders() {
        const DEPTH: usize = 3 * OPEN_MAX;
        let top = std::env::temp_dir().join(format!("lighthaul-walk-{}", std::process::id()));
        let mut folder = top.clone();
        for _ in 0..DEPTH {
            folder.push("m");
            fs::create_dir_all(&folder).unwrap();
            // files before and after the deeper directory
            for name in ["a", "z"] {
                fs::write(folder.join(name), name).unwrap();
            }
        }
        let access = Arc::new(FileAccess::anywhere());
        let mut walk = Walk::at(access, top.clone(), b"top".to_vec(), Rules::default());
        let (mut names, mut most) = (Vec::new(), 0);
        while let Some(found) = walk.next() {
            let Found::Entry(entry, ..) = found else {
                panic!("{found:?}");
            };
            if matches!(entry.kind, EntryKind::File(_)) {
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
