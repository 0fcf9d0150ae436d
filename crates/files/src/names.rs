//! Names that collide or are invalid on the target. They are reported, never changed.

use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of names in memory, about 128 MiB. Further names are not compared.
const NAMES_MAX: usize = 1 << 22;

/// Fault of the name at the end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// The target treats another name in the directory as the same name.
    Collides(Vec<u8>),
    /// The path or name is longer than the target accepts.
    TooLong(Vec<u8>),
}

/// Names of the directories of a list, for a target that ignores case.
///
/// Case is folded by the general rules of Unicode. A file system with other rules, or one that
/// equates composed and decomposed letters, may see collisions that are not found here.
#[derive(Debug, Default)]
pub struct FoldedNames {
    /// Hashes of folded names and of the names themselves, by directory.
    folders: BTreeMap<Vec<u8>, BTreeMap<u64, u64>>,
    names: usize,
}

impl FoldedNames {
    /// Adds `path`. Returns true if its directory has a name that differs only in case.
    pub fn add(&mut self, path: &[u8]) -> bool {
        let mut parts = path.rsplitn(2, |octet| *octet == b'/');
        let name = parts.next().unwrap_or_default();
        let folder = parts.next().unwrap_or_default();
        if self.names >= NAMES_MAX {
            return false;
        }
        let (folded, own) = (hash(&fold(name)), hash(name));
        if !self.folders.contains_key(folder) {
            self.folders.insert(folder.to_vec(), BTreeMap::new());
        }
        let Some(names) = self.folders.get_mut(folder) else {
            return false;
        };
        let first = *names.entry(folded).or_insert_with(|| {
            self.names += 1;
            own
        });
        first != own
    }

    /// Removes the names of `folder`, after its end in the list.
    pub fn remove_folder(&mut self, folder: &[u8]) {
        let names = self.folders.remove(folder);
        self.names -= names.map_or(0, |names| names.len());
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Collides(path) => write!(
                f,
                "{} differs only in case from another name in its directory, and the target ignores case; \
                rename or exclude one of them",
                String::from_utf8_lossy(path)
            ),
            Self::TooLong(path) => write!(
                f,
                "{} has a path or a name that is too long for the target; rename or exclude it",
                String::from_utf8_lossy(path)
            ),
        }
    }
}

/// Returns the name in folded case. Names that are not UTF-8 are folded as ASCII.
fn fold(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        // via upper case, so that \u{df} and ss become equal
        Ok(text) => text.to_uppercase().to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

fn hash(name: &[u8]) -> u64 {
    let hash = blake3::hash(name);
    let first = hash.as_bytes().first_chunk();
    first.map_or(0, |octets| u64::from_be_bytes(*octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_are_found_within_a_folder() {
        let mut folded = FoldedNames::default();
        let mut add = |path: &str| folded.add(path.as_bytes());
        assert!(!add("src") && !add("src/README") && !add("src/a") && !add("README"));
        assert!(add("src/readme") && add("Src"));
        assert!(!add("src/\u{c9}t\u{e9}") && add("src/\u{e9}T\u{c9}"));
        assert!(!add("src/README"), "the same again");
        assert!(!add("src/stra\u{df}e") && add("src/STRASSE"));
    }

    #[test]
    fn names_that_are_not_utf8_are_folded_as_ascii() {
        let mut folded = FoldedNames::default();
        assert!(!folded.add(b"x/\xffA") && folded.add(b"x/\xffa"));
        assert!(!folded.add(b"x/\xfea"));
    }

    #[test]
    fn names_beyond_the_memory_limit_are_not_compared() {
        let mut folded = FoldedNames {
            names: NAMES_MAX - 1,
            ..FoldedNames::default()
        };
        assert!(!folded.add(b"a") && !folded.add(b"b"));
        assert!(!folded.add(b"A") && !folded.add(b"B"));
        assert_eq!(folded.names, NAMES_MAX);
    }

    #[test]
    fn names_of_an_ended_folder_are_forgotten() {
        let mut folded = FoldedNames::default();
        assert!(!folded.add(b"x/a") && !folded.add(b"x/b") && !folded.add(b"c"));
        folded.remove_folder(b"x");
        folded.remove_folder(b"y");
        assert!(!folded.add(b"x/A"));
        assert_eq!(folded.names, 2);
    }
}
