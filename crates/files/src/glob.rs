//! Patterns in the paths of sources, such as `*.iso`; the side that has the files expands them.
//!
//! [`expand`] goes through a path name by name, and reads only the directories whose contents a
//! pattern must match. The rules are those of a shell: `*`, `?` and `[...]` match no slash and no
//! dot at the begin. Lighthaul's own temporary files never match. Limits on results and compared
//! names bound the work that a peer can cause.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lighthaul_fs::file_access::FileAccess;
use lighthaul_session::error::Error;

use crate::error::Fault;
use crate::filter::Pattern;
use crate::manifest::PLACES_MAX;
use crate::temp_names::is_hidden;

/// Maximum number of names that one expansion compares with patterns.
const NAMES_MAX: usize = 1 << 20;
/// Names of a directory that are read at a time.
const BATCH: usize = 1 << 14;

/// Expands the patterns in `paths`. Returns the paths, and true if one of them was a pattern.
///
/// `*` and `?` match no slash, and no dot at the start of a name. A path that exists as it is
/// written is no pattern. A pattern without a match is an error.
pub fn expand(access: &FileAccess, paths: Vec<PathBuf>) -> Result<(Vec<PathBuf>, bool), Error> {
    let mut expanded = Vec::new();
    let (mut any, mut looked) = (false, 0);
    for path in paths {
        if !is_pattern(path.as_os_str().as_bytes()) || exists(access, &path) {
            expanded.push(path);
            continue;
        }
        any = true;
        let found = matches(access, &path, &mut looked)?;
        if found.is_empty() {
            return Err(Fault::NoMatch(path).into());
        }
        expanded.extend(found);
        if expanded.len() > PLACES_MAX {
            return Err(Fault::TooManyMatches(path).into());
        }
    }
    Ok((expanded, any))
}

/// Returns true if `text` is a pattern, unless a file has that name.
pub(crate) fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|octet| b"*?[".contains(octet))
}

fn exists(access: &FileAccess, path: &Path) -> bool {
    let parent = access.parent(path);
    parent.is_ok_and(|parent| parent.is_none_or(|(folder, name)| folder.look(name).is_ok()))
}

/// Returns the paths that match the pattern `path`, sorted. Counts the compared names in `looked`.
fn matches(access: &FileAccess, path: &Path, looked: &mut usize) -> Result<Vec<PathBuf>, Error> {
    let text = path.as_os_str().as_bytes();
    let start = if text.starts_with(b"/") { "/" } else { "" };
    let mut places = vec![PathBuf::from(start)];
    let names = text.split(|octet| *octet == b'/');
    for name in names.filter(|name| !name.is_empty()) {
        if !is_pattern(name) {
            for place in &mut places {
                place.push(OsStr::from_bytes(name));
            }
            places.retain(|place| exists(access, place));
            continue;
        }
        let pattern = Pattern::new(name);
        let mut found = Vec::new();
        for place in &places {
            // what is no directory, or cannot be read, has no matches
            inside(access, place, (name, &pattern), &mut found, looked);
            if found.len() > PLACES_MAX || *looked > NAMES_MAX {
                return Err(Fault::TooManyMatches(path.to_path_buf()).into());
            }
        }
        places = found;
    }
    if text.ends_with(b"/") {
        places.retain(|place| access.folder(place).is_ok());
        for place in &mut places {
            place.push("");
        }
    }
    places.sort();
    Ok(places)
}

/// Adds the items in the directory `place` that match.
fn inside(
    access: &FileAccess,
    place: &Path,
    (text, pattern): (&[u8], &Pattern),
    found: &mut Vec<PathBuf>,
    looked: &mut usize,
) {
    let here = Path::new(".");
    let folder = if place.as_os_str().is_empty() {
        here
    } else {
        place
    };
    let Ok(mut folder) = access.folder(folder) else {
        return;
    };
    while let Ok(names) = folder.names(BATCH)
        && !names.is_empty()
    {
        *looked += names.len();
        let names = names.into_iter();
        let names =
            names.filter(|name| is_match(name.as_bytes(), (text, pattern)) && !is_hidden(name));
        found.extend(names.map(|name| place.join(name)));
        if found.len() > PLACES_MAX || *looked > NAMES_MAX {
            return;
        }
    }
}

/// Returns true if the pattern with this text matches `name`.
pub(crate) fn is_match(name: &[u8], (text, pattern): (&[u8], &Pattern)) -> bool {
    (!name.starts_with(b".") || text.starts_with(b".")) && pattern.matches(name, false)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn patterns_expand_as_in_a_shell() {
        let top = std::env::temp_dir().join(format!("lighthaul-glob-{}", std::process::id()));
        for path in ["a/x.h5", "a/y.h5", "a/.z.h5", "a/odd[1]", "b/x.h5", "b/c/x"] {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let access = FileAccess::beneath(&top).unwrap();
        let expanded = |path: &str| {
            let (paths, any) = expand(&access, vec![PathBuf::from(path)])?;
            let paths: Vec<_> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            Ok::<_, Error>((paths.join(" "), any))
        };
        for (path, found, any) in [
            ("a/*.h5", "a/x.h5 a/y.h5", true),
            ("/a/*.h5", "/a/x.h5 /a/y.h5", true),
            ("*/x.h5", "a/x.h5 b/x.h5", true),
            ("?/[xy].h5", "a/x.h5 a/y.h5 b/x.h5", true),
            ("a/.*", "a/.z.h5", true),
            ("b/*/", "b/c/", true),
            ("a/odd[1]", "a/odd[1]", false),
            ("a/missing", "a/missing", false),
        ] {
            assert_eq!(expanded(path), Ok((found.to_owned(), any)), "{path}");
        }
        for path in ["a/*.x", "*/*/*/*", "../*", "a/[", "b/x.h5/*"] {
            let error = expanded(path).unwrap_err();
            assert!(error.text().starts_with("no file matches"), "{error}");
        }
        fs::remove_dir_all(&top).unwrap();
    }
}
