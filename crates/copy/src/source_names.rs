//! Names at the source, to find items that only the target has.
//!
//! Memory holds 8 MiB of names; the others are in a file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

use lighthaul_files::manifest::{Entry, EntryKind, PATH_MAX};
use lighthaul_files::temp_names::PREFIX;
use lighthaul_fs::packed_names::{NameFile, PackedNames};
use lighthaul_session::fault::PeerFault;

/// Names at the source, for each directory of the list that has not ended.
#[derive(Debug)]
pub struct SourceNames {
    stack: Vec<(Vec<u8>, PackedNames)>,
    /// Octets of names in memory.
    here: usize,
    /// Octets of all names.
    octets: u64,
    /// File with the names that are not in memory.
    file: Option<NameFile>,
    /// True if the target directory corresponds to one source directory.
    whole: bool,
    /// Reason why the names are incomplete, so that nothing more is deleted.
    incomplete: Option<String>,
    is_reported: bool,
    /// Directories whose contents were not listed.
    unlisted: BTreeSet<Vec<u8>>,
}

impl SourceNames {
    /// Creates the state for entries that begin with the name of their source (`named`), or for the contents of a
    /// directory.
    pub fn new(named: bool) -> Self {
        Self {
            stack: vec![(Vec::new(), PackedNames::default())],
            here: 0,
            octets: 0,
            file: None,
            whole: !named,
            incomplete: None,
            is_reported: false,
            unlisted: BTreeSet::new(),
        }
    }

    /// Returns true if the target directory corresponds to one source directory.
    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    /// Adds the name of `entry`. Fails if a peer lists too many.
    pub fn add(&mut self, entry: &Entry) -> Result<(), PeerFault> {
        if entry.kind == EntryKind::FolderEnd {
            return Ok(());
        }
        let cut = entry.path.iter().rposition(|octet| *octet == b'/');
        let (folder, name) = match cut {
            Some(at) => (&entry.path[..at], &entry.path[at + 1..]),
            None => (&[][..], entry.path.as_slice()),
        };
        if let Some((_, names)) = self.stack.iter_mut().rev().find(|(path, _)| path == folder) {
            let before = names.here();
            names.push(name);
            let more = names.here() - before;
            self.here += more;
            self.octets += more as u64;
        }
        if entry.kind == EntryKind::Folder {
            self.stack
                .push((entry.path.clone(), PackedNames::default()));
        }
        if self.stack.len() > DEPTH_MAX {
            return Err(PeerFault::Invalid(
                "too many directories without their ends",
            ));
        }
        let file = self.file.as_ref().map_or(0, NameFile::size);
        if self.octets > OCTETS_MAX || file > FILE_MAX {
            return Err(PeerFault::Invalid(
                "too many names in directories without their ends",
            ));
        }
        if self.here > HERE_MAX
            && let Err(error) = self.spill()
        {
            self.lose(&error);
        }
        Ok(())
    }

    /// Moves the names of the directory with the most of them to the file.
    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(NameFile::create()?),
        };
        let names = self.stack.iter_mut().map(|(_, names)| names);
        if let Some(names) = names.max_by_key(|names| names.here()) {
            self.here -= names.here();
            names.spill(file)?;
        }
        Ok(())
    }

    /// Forgets all names, which have no place.
    fn lose(&mut self, error: &io::Error) {
        let text = "nothing is deleted, because the names of the source cannot be kept in a temporary file";
        self.incomplete = Some(format!("{text}: {error}"));
        for (_, names) in &mut self.stack {
            *names = PackedNames::default();
        }
        (self.here, self.octets, self.file) = (0, 0, None);
    }

    /// Records that the contents of the directory `path` are not listed, so that none are deleted.
    pub fn leave_unlisted(&mut self, path: Vec<u8>) -> Result<(), PeerFault> {
        if self.unlisted.len() >= UNLISTED_MAX {
            return Err(PeerFault::Invalid("too many directories without contents"));
        }
        self.unlisted.insert(path);
        Ok(())
    }

    /// Records that the names are incomplete, so that no more entries are deleted.
    pub fn mark_incomplete(&mut self) {
        let text = "nothing is deleted, because some of the source could not be read";
        self.incomplete.get_or_insert_with(|| text.to_owned());
    }

    /// Returns a message about that, once.
    pub fn take_warning(&mut self) -> Option<String> {
        let say = self.incomplete.clone().filter(|_| !self.is_reported);
        self.is_reported |= say.is_some();
        say
    }

    /// Ends the directory `path`, which has the names `there` at the target. Returns the paths of items that only the
    /// target has.
    ///
    /// If there are any, passes each path that only the source has to `unseen`. A file system that rewrites names may
    /// show their items under other names.
    pub fn end_folder(
        &mut self,
        path: &[u8],
        there: Vec<OsString>,
        unseen: &mut dyn FnMut(Vec<u8>),
    ) -> Vec<Vec<u8>> {
        let listed = self.stack.last().is_some_and(|(folder, _)| folder == path);
        let Some((folder, names)) = self.stack.pop_if(|_| listed) else {
            return Vec::new();
        };
        self.here -= names.here();
        self.octets -= names.octets();
        let is_left_out = self.unlisted.remove(path) || path.is_empty() && !self.whole;
        let surplus = if is_left_out || self.incomplete.is_some() {
            Ok(Vec::new())
        } else {
            surplus(folder, (&names, self.file.as_ref()), there, unseen)
        };
        if let Some(file) = self.file.as_mut().filter(|_| names.end() > 0) {
            let ends = self.stack.iter().map(|(_, names)| names.end());
            file.shorten(ends.max().unwrap_or(0));
        }
        surplus.unwrap_or_else(|error| {
            self.lose(&error);
            Vec::new()
        })
    }
}

/// Returns the paths of items that only the target has in the directory `path`. If there are any, passes each path that
/// only the source has to `unseen`.
fn surplus(
    path: Vec<u8>,
    (names, file): (&PackedNames, Option<&NameFile>),
    there: Vec<OsString>,
    unseen: &mut dyn FnMut(Vec<u8>),
) -> io::Result<Vec<Vec<u8>>> {
    let full = move |name: &[u8]| match path.as_slice() {
        [] => name.to_vec(),
        path => [path, b"/", name].concat(),
    };
    let mut there: Vec<_> = there.into_iter().map(OsString::into_vec).collect();
    there.sort_unstable();
    let find = |name: &[u8]| there.binary_search_by(|other| other.as_slice().cmp(name));
    let mut is_listed = vec![false; there.len()];
    names.each(file, &mut |name| {
        if let Ok(at) = find(name) {
            is_listed[at] = true;
        }
    })?;
    let others = there.iter().zip(&is_listed);
    let others = others.filter(|(name, is_listed)| !**is_listed && !name.starts_with(PREFIX));
    let surplus: Vec<_> = others.map(|(name, _)| full(name)).collect();
    if !surplus.is_empty() {
        names.each(file, &mut |name| {
            if find(name).is_err() {
                unseen(full(name));
            }
        })?;
    }
    Ok(surplus)
}

/// Maximum number of directories with unlisted contents whose end has not been listed.
const UNLISTED_MAX: usize = 1 << 12;
/// Deepest nesting of directories: no path has more names.
const DEPTH_MAX: usize = PATH_MAX / 2 + 1;
/// Maximum number of octets of the names in directories that have not ended.
const OCTETS_MAX: u64 = 2 << 30;
/// Maximum size of the file. It keeps places of ended directories that are between others.
const FILE_MAX: u64 = 4 * OCTETS_MAX;
/// Maximum number of these octets in memory.
const HERE_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], kind: EntryKind) -> Entry {
        Entry {
            kind,
            ..Entry::bare(path.to_vec())
        }
    }

    #[test]
    fn names_of_a_directory_are_compared_at_its_end() {
        let mut names = SourceNames::new(false);
        names.add(&entry(b"x", EntryKind::Folder)).unwrap();
        for path in [&b"x/a"[..], b"x/b", b"x/c"] {
            names.add(&entry(path, EntryKind::File(1))).unwrap();
        }
        let mut ended = |path: &[u8], there: &[&str]| {
            let mut unseen = Vec::new();
            let there = there.iter().map(OsString::from).collect();
            let surplus = names.end_folder(path, there, &mut |path| unseen.push(path));
            (surplus, unseen)
        };
        let (surplus, unseen) = ended(b"x", &["a", "B", "c", "d", ".lighthaul-1"]);
        assert_eq!(surplus, [b"x/B", b"x/d"]);
        assert_eq!(unseen, [b"x/b"]);
        let (surplus, unseen) = ended(b"", &["x", "y"]);
        assert_eq!(surplus, [b"y"]);
        assert!(unseen.is_empty());
        assert_eq!(names.octets, 0);
    }

    #[test]
    fn names_of_large_directories_are_compared_from_the_file() {
        let mut names = SourceNames::new(false);
        let name = |of: &str, nth: u32| format!("{of}/a-file-with-a-long-name-{nth}");
        let count = 300_000;
        for of in ["x", "x/y"] {
            names.add(&entry(of.as_bytes(), EntryKind::Folder)).unwrap();
            for nth in 0..count {
                let path = name(of, nth);
                names
                    .add(&entry(path.as_bytes(), EntryKind::File(1)))
                    .unwrap();
                assert!(names.here <= HERE_MAX);
            }
        }
        let mut end = |of: &str| {
            // one name is missing, and one is new
            let there = (1..=count).map(|nth| name("", nth)[1..].to_owned().into());
            let mut unseen = Vec::new();
            let more = (of == "x").then(|| OsString::from("y"));
            let there = there.chain(more).collect();
            let surplus = names.end_folder(of.as_bytes(), there, &mut |path| unseen.push(path));
            assert_eq!(surplus, [name(of, count).into_bytes()]);
            assert_eq!(unseen, [name(of, 0).into_bytes()]);
        };
        end("x/y");
        end("x");
        // the name of x, with its length
        assert_eq!(names.octets, 3);
    }

    #[test]
    fn nothing_is_deleted_after_names_were_lost() {
        let mut names = SourceNames::new(false);
        names.add(&entry(b"x", EntryKind::File(1))).unwrap();
        names.lose(&io::ErrorKind::StorageFull.into());
        names.add(&entry(b"y", EntryKind::File(1))).unwrap();
        let surplus = names.end_folder(b"", vec!["z".into()], &mut |_| {});
        assert!(surplus.is_empty());
        let why = names.take_warning().unwrap();
        assert!(why.contains("temporary file"), "{why}");
        assert_eq!(names.take_warning(), None);
    }

    #[test]
    fn peer_cannot_list_directories_without_end() {
        let mut names = SourceNames::new(false);
        let folder = |nth: usize| entry(nth.to_string().as_bytes(), EntryKind::Folder);
        // the target directory is one of them
        for nth in 1..DEPTH_MAX {
            names.add(&folder(nth)).unwrap();
        }
        assert!(names.add(&folder(0)).is_err());
    }
}
