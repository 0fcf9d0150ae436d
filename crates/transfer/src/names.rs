//! Names that a target does not take, or takes for each other; they are told, never changed.

use std::collections::BTreeMap;
use std::fmt;

use lighthaul_io::naming::Naming;

/// What is wrong with a name, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Two names of one folder are one name on the target.
    Same {
        /// The folder, from the root of the transfer.
        folder: Vec<u8>,
        /// The name that came first.
        first: Vec<u8>,
        /// The one that would take its place.
        second: Vec<u8>,
    },
    /// A name has more octets than the target takes.
    LongName {
        /// The path that ends in it.
        path: Vec<u8>,
        /// How many it takes.
        octets_max: usize,
    },
    /// A path has more octets than the target takes.
    LongPath {
        /// The path.
        path: Vec<u8>,
        /// How many it takes.
        octets_max: usize,
    },
}

/// Finds what is wrong with the `names` that are in one `folder`, for a target of this `naming`.
///
/// Cases are folded as Unicode does in general. A file system that folds a little differently, or also takes
/// composed and decomposed letters for the same, may still find two names alike that are not told here.
pub fn troubles<N: AsRef<[u8]>>(naming: &Naming, folder: &[u8], names: &[N]) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    let mut folded: BTreeMap<Vec<u8>, &[u8]> = BTreeMap::new();
    for name in names.iter().map(AsRef::as_ref) {
        let path = || join(folder, name);
        if name.len() > naming.name_max {
            let octets_max = naming.name_max;
            troubles.push(Trouble::LongName {
                path: path(),
                octets_max,
            });
        } else if path().len() > naming.path_max {
            let octets_max = naming.path_max;
            troubles.push(Trouble::LongPath {
                path: path(),
                octets_max,
            });
        }
        if !naming.folds_case {
            continue;
        }
        match folded.get(&fold(name)) {
            Some(first) if *first != name => troubles.push(Trouble::Same {
                folder: folder.to_vec(),
                first: first.to_vec(),
                second: name.to_vec(),
            }),
            Some(_) => {}
            None => {
                folded.insert(fold(name), name);
            }
        }
    }
    troubles
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        match self {
            Self::Same {
                folder,
                first,
                second,
            } => {
                let place = match folder.as_slice() {
                    [] => "there".into(),
                    folder => format!("in {}", text(folder)),
                };
                let (first, second) = (text(first), text(second));
                write!(
                    f,
                    "{first} and {second} {place} are one name on the target, which does not tell upper \
                     from lower case: rename or exclude one"
                )
            }
            Self::LongName { path, octets_max } => write!(
                f,
                "{} has a longer name than the target takes ({octets_max} octets): rename or exclude it",
                text(path)
            ),
            Self::LongPath { path, octets_max } => write!(
                f,
                "{} is a longer path than the target takes ({octets_max} octets): copy the folder that \
                 it is in by itself",
                text(path)
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

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() {
        name.to_vec()
    } else {
        [folder, b"/", name].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDING: Naming = Naming {
        name_max: 10,
        path_max: 16,
        folds_case: true,
    };

    fn told(naming: &Naming, folder: &str, names: &[&str]) -> Vec<String> {
        let troubles = troubles(naming, folder.as_bytes(), names);
        troubles.iter().map(Trouble::to_string).collect()
    }

    #[test]
    fn names_that_differ_in_case_alone_are_told_where_case_does_not_count() {
        let names = [
            "README",
            "a",
            "readme",
            "\u{c9}t\u{e9}",
            "\u{e9}T\u{c9}",
            "b",
        ];
        let told_there = told(&FOLDING, "src", &names);
        assert_eq!(told_there.len(), 2);
        assert!(told_there[0].starts_with("README and readme in src are one name"));
        let exact = Naming {
            folds_case: false,
            ..FOLDING
        };
        assert_eq!(told(&exact, "src", &names), [""; 0]);
        let octets: [&[u8]; 3] = [b"\xffA", b"\xffa", b"\xfea"];
        assert_eq!(troubles(&FOLDING, b"", &octets).len(), 1);
    }

    #[test]
    fn long_names_and_paths_are_told_with_what_is_taken() {
        let told = told(
            &FOLDING,
            "folder",
            &["0123456789", "01234567890", "012345678"],
        );
        assert_eq!(told.len(), 2);
        assert!(told[0].contains("longer path than the target takes (16 octets)"));
        assert!(told[1].contains("longer name than the target takes (10 octets)"));
        assert_eq!(troubles(&FOLDING, b"", &["0123456789"]), []);
    }
}
