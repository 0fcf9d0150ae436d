//! Names that a target does not take, or takes for each other; they are told, never changed.

use std::collections::BTreeMap;
use std::fmt;

/// Names that are remembered at a time; what comes beyond is not compared. About 128 MiB.
const NAMES_MAX: usize = 1 << 22;

/// What is wrong with the name at the end of a path, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Another name of its folder is the same on the target.
    Same(Vec<u8>),
    /// It is longer than the target takes.
    Long(Vec<u8>),
}

/// The names of the folders that a list is in, as a target takes them that does not tell upper from lower case.
///
/// Cases are folded as Unicode does in general. A file system that folds a little differently, or also takes
/// composed and decomposed letters for the same, may still find two names alike that are not told here.
#[derive(Debug, Default)]
pub struct Folded {
    /// By folder; of each folded name the hash, with that of the name itself.
    folders: BTreeMap<Vec<u8>, BTreeMap<u64, u64>>,
    names: usize,
}

impl Folded {
    /// Takes note of `path`; answers whether its folder had a name that differs from its own in case alone.
    pub fn take(&mut self, path: &[u8]) -> bool {
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

    /// Forgets the names of `folder`, which has been listed to its end.
    pub fn leave(&mut self, folder: &[u8]) {
        let names = self.folders.remove(folder);
        self.names -= names.map_or(0, |names| names.len());
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same(path) => write!(
                f,
                "{} differs from another name of its folder in case alone, which the target does not tell \
                 apart: rename or exclude one",
                String::from_utf8_lossy(path)
            ),
            Self::Long(path) => write!(
                f,
                "{} is longer, or has a longer name, than the target takes: rename or exclude it",
                String::from_utf8_lossy(path)
            ),
        }
    }
}

/// The name without its cases; what is not text is folded as far as it is ASCII.
fn fold(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        // by way of upper case, so that the likes of \u{df} and ss meet
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
    fn names_that_differ_in_case_alone_are_noticed_within_a_folder() {
        let mut folded = Folded::default();
        let mut take = |path: &str| folded.take(path.as_bytes());
        assert!(!take("src") && !take("src/README") && !take("src/a") && !take("README"));
        assert!(take("src/readme") && take("Src"));
        assert!(!take("src/\u{c9}t\u{e9}") && take("src/\u{e9}T\u{c9}"));
        assert!(!take("src/README"), "the same again");
        assert!(!take("src/stra\u{df}e") && take("src/STRASSE"));
    }

    #[test]
    fn names_that_are_no_text_are_folded_as_far_as_they_are() {
        let mut folded = Folded::default();
        assert!(!folded.take(b"x/\xffA") && folded.take(b"x/\xffa"));
        assert!(!folded.take(b"x/\xfea"));
    }

    #[test]
    fn more_names_than_are_remembered_are_not_compared() {
        let mut folded = Folded {
            names: NAMES_MAX - 1,
            ..Folded::default()
        };
        assert!(!folded.take(b"a") && !folded.take(b"b"));
        assert!(!folded.take(b"A") && !folded.take(b"B"));
        assert_eq!(folded.names, NAMES_MAX);
    }

    #[test]
    fn a_folder_that_ended_is_forgotten() {
        let mut folded = Folded::default();
        assert!(!folded.take(b"x/a") && !folded.take(b"x/b") && !folded.take(b"c"));
        folded.leave(b"x");
        folded.leave(b"y");
        assert!(!folded.take(b"x/A"));
        assert_eq!(folded.names, 2);
    }
}
