//! Keys and paths: which keys can become paths of files, and which paths keys.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use lighthaul_files::manifest::PATH_MAX;
use lighthaul_files::temp_names::is_hidden;

/// Kind and path of a key below a prefix at the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyPath {
    /// A file.
    File(PathBuf),
    /// A directory, of which the object is only a mark.
    Folder(PathBuf),
    /// The prefix itself.
    Prefix,
}

/// Returns the path of an object of `size` bytes below `prefix`, or the reason why no file can have this name.
pub(crate) fn path_of(key: &str, prefix: &str, size: u64) -> Result<KeyPath, &'static str> {
    let rest = key
        .strip_prefix(prefix)
        .ok_or("the store lists it, but it is not below the prefix")?;
    if rest.is_empty() {
        return Ok(KeyPath::Prefix);
    }
    let (name, is_folder) = match rest.strip_suffix('/') {
        Some(_) if size > 0 => return Err("its key ends with a slash, but it has bytes"),
        Some(name) => (name, true),
        None => (rest, false),
    };
    check(name)?;
    let path = PathBuf::from(name);
    Ok(if is_folder {
        KeyPath::Folder(path)
    } else {
        KeyPath::File(path)
    })
}

/// Fails with the reason if a path cannot be that of a file below a directory, and of an object.
pub(crate) fn check(path: &str) -> Result<(), &'static str> {
    if path.len() > PATH_MAX {
        return Err("its name is too long for a path");
    }
    if path.chars().any(char::is_control) {
        return Err("its name has control characters");
    }
    for part in path.split('/') {
        match part {
            "" => return Err("its key has an empty part"),
            "." | ".." => return Err("its key has a part . or .."),
            part if is_hidden(OsStr::new(part)) => {
                return Err("its name is that of a temporary file of this program");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the key of a path below a prefix, or the reason why there is none.
pub(crate) fn key_of(prefix: &str, path: &Path) -> Result<String, &'static str> {
    let path = path.to_str().ok_or("its name is not UTF-8, as keys are")?;
    check(path)?;
    let key = format!("{prefix}{path}");
    if key.len() > KEY_MAX {
        return Err("its key would have more than 1024 bytes");
    }
    Ok(key)
}

/// Returns a key as a prefix: with a slash at its end, unless it is empty.
pub(crate) fn folder(key: &str) -> String {
    if key.is_empty() || key.ends_with('/') {
        key.to_owned()
    } else {
        format!("{key}/")
    }
}

/// Returns the last part of a key.
pub(crate) fn name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// Maximum number of octets of a key.
const KEY_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_no_paths_are_refused() {
        for key in [
            "p/../x",
            "p/a/../../x",
            "p/..",
            "p/./x",
            "p//x",
            "p/a//b",
            "p//",
            "p/a\0b",
            "p/a\nb",
            "p/\u{7f}",
            "p/a\u{9b}2J",
            "p/.lighthaul-0123456789abcdef",
            "p/a/.lighthaul-01234567-1-2-a-4",
            "q/x",
            "",
            "p",
        ] {
            assert!(path_of(key, "p/", 1).is_err(), "{key:?}");
        }
        assert!(path_of("p/a/", "p/", 1).is_err());
        assert!(path_of("/x", "", 1).is_err());
        let long = format!("p/{}", "a/".repeat(PATH_MAX));
        assert!(path_of(&long, "p/", 0).is_err());
    }

    #[test]
    fn other_keys_are_paths_below_the_target() {
        let file = |path: &str| Ok(KeyPath::File(path.into()));
        assert_eq!(path_of("p/a b/ü", "p/", 1), file("a b/ü"));
        assert_eq!(path_of("..x/y..", "", 1), file("..x/y.."));
        assert_eq!(path_of("p/*?", "p/", 1), file("*?"));
        assert_eq!(path_of("p/", "p/", 0), Ok(KeyPath::Prefix));
        assert_eq!(path_of("p/a/", "p/", 0), Ok(KeyPath::Folder("a".into())));
    }

    #[test]
    fn paths_that_are_no_keys_are_refused() {
        use std::os::unix::ffi::OsStrExt;
        let latin = Path::new(OsStr::from_bytes(b"a\xff"));
        assert!(key_of("p/", latin).is_err());
        assert!(key_of("p/", Path::new("a\nb")).is_err());
        assert!(key_of("p/", Path::new(&"x".repeat(1023))).is_err());
        assert_eq!(key_of("p/", Path::new("a/b")), Ok("p/a/b".to_owned()));
        assert_eq!(
            (folder(""), folder("a"), folder("a/")),
            (String::new(), "a/".into(), "a/".into())
        );
    }
}
