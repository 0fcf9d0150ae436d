//! Entries that a peer may list: the sources that were requested, without those that a rule excludes.
//!
//! The sender selects the entries, and the receiver does not trust it. A sender that adds others could write any file
//! of the target directory, as in CVE-2019-6111 and CVE-2022-29154. It could also have files deleted that a rule
//! protects. Paths are those at the source.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lighthaul_session::fault::PeerFault;

use crate::filter::{Decision, Pattern, Rules};
use crate::glob::{is_match, is_pattern};
use crate::manifest::{Entry, EntryKind};
use crate::naming::Naming;
use crate::options::Options;

/// Check of the entries that a peer lists.
#[derive(Debug)]
pub struct ListCheck {
    /// Names that were requested; none if the peer chooses its sources, or a list names the entries.
    requested: Option<RequestedNames>,
    rules: Rules,
    /// True if a list names the entries. It may name entries of excluded directories.
    listed: bool,
    /// Directory of the last entry, which no rule excludes.
    folder: Vec<u8>,
    /// First name of the last entry, which was requested.
    first: Vec<u8>,
}

/// First names of the entries that belong to requested sources.
#[derive(Debug, Default)]
struct RequestedNames {
    /// True if the contents of a directory were requested.
    contents: bool,
    /// True if a source has a name that only the peer knows, as `..` has.
    any: bool,
    names: BTreeSet<Vec<u8>>,
    /// Patterns in names, with their texts.
    patterns: Vec<(Vec<u8>, Pattern)>,
}

impl ListCheck {
    /// Creates the check for the paths `requested` of the peer, if this side has requested them, and for the rules of
    /// `options`.
    pub fn new(requested: Option<&[Vec<u8>]>, options: &Options) -> Self {
        let is_list = options.listed || options.striped.is_some();
        Self {
            requested: requested.filter(|_| !is_list).map(RequestedNames::of),
            rules: options.rules.clone(),
            listed: is_list,
            folder: Vec::new(),
            first: Vec::new(),
        }
    }

    /// Fails if entries named by `naming` cannot be those that were requested.
    pub fn begin(&self, naming: Naming) -> Result<(), PeerFault> {
        match &self.requested {
            Some(requested) if requested.contents == naming.is_named() => Err(PeerFault::Invalid(
                "a list of other files than those that were requested",
            )),
            _ => Ok(()),
        }
    }

    /// Fails if `entry` was not requested, or if a rule excludes it or a directory above it.
    pub fn check(&mut self, entry: &Entry) -> Result<(), PeerFault> {
        if entry.is_top() {
            return Ok(());
        }
        self.check_name(&entry.path)?;
        self.check_rules(entry)
    }

    fn check_name(&mut self, path: &[u8]) -> Result<(), PeerFault> {
        let Some(requested) = &self.requested else {
            return Ok(());
        };
        let first = path.split(|octet| *octet == b'/').next();
        let first = first.unwrap_or_default();
        if first == self.first {
            return Ok(());
        }
        if !requested.has(first) {
            return Err(PeerFault::Invalid("a file that was not requested"));
        }
        self.first = first.to_vec();
        Ok(())
    }

    fn check_rules(&mut self, entry: &Entry) -> Result<(), PeerFault> {
        if self.rules.is_empty() {
            return Ok(());
        }
        let is_folder = matches!(entry.kind, EntryKind::Folder | EntryKind::FolderEnd);
        if self.listed {
            // the directories above a listed path are not subject to rules
            return if is_folder {
                Ok(())
            } else {
                self.include(&entry.path, false)
            };
        }
        self.include(&entry.path, is_folder)?;
        let slash = entry.path.iter().rposition(|octet| *octet == b'/');
        let folder = &entry.path[..slash.unwrap_or(0)];
        if folder == self.folder {
            return Ok(());
        }
        for (at, octet) in folder.iter().enumerate() {
            if *octet == b'/' {
                self.include(&folder[..at], true)?;
            }
        }
        if !folder.is_empty() {
            self.include(folder, true)?;
        }
        self.folder = folder.to_vec();
        Ok(())
    }

    fn include(&self, path: &[u8], is_folder: bool) -> Result<(), PeerFault> {
        match self.rules.decide(path, is_folder) {
            Decision::Include => Ok(()),
            Decision::Exclude(_) => Err(PeerFault::Invalid("a file that a rule excludes")),
        }
    }
}

impl RequestedNames {
    /// Returns the names of the entries below the requested `paths`.
    fn of(paths: &[Vec<u8>]) -> Self {
        let mut requested = Self::default();
        for path in paths {
            if path.ends_with(b"/") {
                requested.contents = true;
                continue;
            }
            let name = Path::new(OsStr::from_bytes(path)).file_name();
            let Some(name) = name.map(OsStrExt::as_bytes) else {
                requested.any = true;
                continue;
            };
            if is_pattern(name) {
                let pattern = (name.to_vec(), Pattern::new(name));
                requested.patterns.push(pattern);
            }
            requested.names.insert(name.to_vec());
        }
        requested
    }

    /// Returns true if entries may begin with `name`.
    fn has(&self, name: &[u8]) -> bool {
        let matches = |(text, pattern): &(Vec<u8>, Pattern)| is_match(name, (text, pattern));
        self.contents || self.any || self.names.contains(name) || self.patterns.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterOption;

    fn requested(paths: &[&str]) -> ListCheck {
        let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        ListCheck::new(Some(&paths), &Options::default())
    }

    fn entry(path: &str, kind: EntryKind) -> Entry {
        Entry {
            kind,
            ..Entry::bare(path.into())
        }
    }

    #[test]
    fn only_requested_names_may_be_listed() {
        for (paths, yes, no) in [
            (
                &["/data/report.pdf"][..],
                &["report.pdf", "report.pdf/x"][..],
                &[".ssh/x", "data", "report"][..],
            ),
            (
                &["a", "dir/b"],
                &["a", "b/x", "a/y"],
                &["dir", "dir/b", "c"],
            ),
            (
                &["dir/*.iso"],
                &["x.iso", "*.iso", "x.iso/in"],
                &[".x.iso", "x.isox", "dir/x.iso"],
            ),
            (
                &["dir/.*rc"],
                &[".bashrc"],
                &["bashrc", ".ssh/authorized_keys"],
            ),
            (&["d?r/a"], &["a"], &["dir", "dir/a"]),
            (&["dir/."], &["dir/x"], &["other"]),
            (&[".."], &["x", "y/z"], &[]),
        ] {
            let mut check = requested(paths);
            for path in yes {
                let listed = check.check(&entry(path, EntryKind::File(1)));
                assert!(listed.is_ok(), "{paths:?} {path}");
            }
            for path in no {
                let listed = check.check(&entry(path, EntryKind::File(1)));
                assert!(listed.is_err(), "{paths:?} {path}");
            }
            assert!(check.begin(Naming::Contents).is_err());
            for naming in [Naming::File, Naming::Folder, Naming::Several] {
                assert!(check.begin(naming).is_ok());
            }
        }
    }

    #[test]
    fn contents_of_a_directory_have_any_names() {
        let mut check = requested(&["dir/"]);
        assert!(check.begin(Naming::Contents).is_ok());
        assert!(check.begin(Naming::Folder).is_err());
        let top = Entry {
            kind: EntryKind::FolderEnd,
            ..Entry::bare(Vec::new())
        };
        assert!(check.check(&top).is_ok());
        assert!(check.check(&entry("x/y", EntryKind::File(1))).is_ok());
    }

    #[test]
    fn list_and_sources_of_the_peer_have_any_names() {
        let listed = Options {
            listed: true,
            ..Options::default()
        };
        let paths = [b"base".to_vec()];
        for mut check in [
            ListCheck::new(Some(&paths), &listed),
            ListCheck::new(None, &Options::default()),
        ] {
            assert!(check.begin(Naming::Contents).is_ok());
            assert!(check.check(&entry("x", EntryKind::File(1))).is_ok());
        }
    }

    #[test]
    fn excluded_entries_and_their_contents_may_not_be_listed() {
        let exclude = |text: &str| FilterOption::Exclude(text.into());
        let rules = Rules::parse(&[exclude("precious/"), exclude("*.o"), exclude("/a/b")]);
        let options = Options {
            rules: rules.unwrap(),
            ..Options::default()
        };
        let listed = Options {
            listed: true,
            ..options.clone()
        };
        for (path, kind, walked, in_list) in [
            ("precious", EntryKind::Folder, false, true),
            ("precious", EntryKind::FolderEnd, false, true),
            ("precious", EntryKind::File(1), true, true),
            ("precious/x", EntryKind::File(1), false, true),
            ("y/precious/x/z", EntryKind::Folder, false, true),
            ("y/x.o", EntryKind::File(1), false, false),
            ("a/b/c", EntryKind::File(1), false, true),
            ("a/c", EntryKind::File(1), true, true),
            ("a/c/b", EntryKind::File(1), true, true),
        ] {
            for (options, may) in [(&options, walked), (&listed, in_list)] {
                let mut check = ListCheck::new(None, options);
                // the directory of an earlier entry proves nothing
                check.check(&entry("a/d", EntryKind::File(1))).unwrap();
                let is_listed = check.check(&entry(path, kind.clone())).is_ok();
                assert_eq!(is_listed, may, "{path} {kind:?} {}", options.listed);
            }
        }
    }
}
