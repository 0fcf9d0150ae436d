//! Comparison of two trees in all that a copy keeps.
//!
//! `complete` checks a finished copy: types, modes, times, bytes, link targets, one extended
//! attribute and the number of hard links, without anything left over. `interrupted` checks a copy
//! after a kill: files with their final names must be complete, and the rest may be missing. Both
//! return the differences as texts. The metadata of the top directory is not compared.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::tree::ATTRIBUTE;

/// Entries below a directory, by path.
type Entries = BTreeMap<PathBuf, Metadata>;

/// Compares `target`, a completed copy, with `source`. Returns the differences.
pub(crate) fn complete(source: &Path, target: &Path) -> io::Result<Vec<String>> {
    let (expected, found) = (entries(source)?, entries(target)?);
    let mut faults = Vec::new();
    for (path, meta) in &expected {
        match found.get(path) {
            None => faults.push(format!("{} is missing", path.display())),
            Some(there) => faults.extend(differ(source, target, path, (meta, there))?),
        }
        let names = |meta: &Metadata| if meta.is_dir() { 1 } else { meta.nlink() };
        if found
            .get(path)
            .is_some_and(|there| names(there) != names(meta))
        {
            faults.push(format!("{} has another number of names", path.display()));
        }
    }
    let more = found.keys().filter(|path| !expected.contains_key(*path));
    faults.extend(more.map(|path| format!("{} is left over", path.display())));
    Ok(faults)
}

/// Compares `target` with `source` after a kill. Returns the differences. Files with their final
/// names must be complete, but directories and sets of hard links need not be.
pub(crate) fn interrupted(source: &Path, target: &Path) -> io::Result<Vec<String>> {
    if !target.exists() {
        return Ok(Vec::new());
    }
    let expected = entries(source)?;
    let mut faults = Vec::new();
    for (path, there) in entries(target)? {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if there.is_dir() || name.starts_with(b".lighthaul-") {
            continue;
        }
        match expected.get(&path) {
            None => faults.push(format!("{} is not of the source", path.display())),
            Some(meta) => faults.extend(differ(source, target, &path, (meta, &there))?),
        }
    }
    Ok(faults)
}

/// Describes the difference of an entry, if any.
fn differ(
    source: &Path,
    target: &Path,
    path: &Path,
    (meta, there): (&Metadata, &Metadata),
) -> io::Result<Option<String>> {
    let (one, other) = (source.join(path), target.join(path));
    let what = if meta.mode() != there.mode() {
        format!("mode {:o}, not {:o}", there.mode(), meta.mode())
    } else if (meta.mtime(), meta.mtime_nsec()) != (there.mtime(), there.mtime_nsec()) {
        "different time".to_owned()
    } else if meta.is_symlink() && fs::read_link(&one)? != fs::read_link(&other)? {
        "different link target".to_owned()
    } else if meta.is_file() && !is_same(&one, &other)? {
        "different bytes".to_owned()
    } else if meta.is_file() && attribute(&one) != attribute(&other) {
        "different extended attribute".to_owned()
    } else {
        return Ok(None);
    };
    Ok(Some(format!("{}: {what}", path.display())))
}

fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let mut files = [open(one)?, open(other)?];
    let mut buffers = [vec![0; 1 << 20], vec![0; 1 << 20]];
    loop {
        let mut lens = [0; 2];
        for ((file, buffer), len) in files.iter_mut().zip(&mut buffers).zip(&mut lens) {
            *len = fill(file, buffer)?;
        }
        if lens[0] != lens[1] || buffers[0][..lens[0]] != buffers[1][..lens[1]] {
            return Ok(false);
        }
        if lens[0] == 0 {
            return Ok(true);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).open(path)
}

fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..])? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}

fn attribute(path: &Path) -> Option<Vec<u8>> {
    let mut value = [0_u8; 64];
    let len = rustix::fs::lgetxattr(path, ATTRIBUTE, &mut value).ok()?;
    Some(value[..len].to_vec())
}

fn entries(folder: &Path) -> io::Result<Entries> {
    let mut found = Entries::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for item in fs::read_dir(inner)? {
            let path = item?.path();
            let meta = match fs::symlink_metadata(&path) {
                // A daemon without its client may be removing temporary files.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                meta => meta?,
            };
            let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
            if meta.is_dir() {
                folders.push(path);
            }
            found.insert(name, meta);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
    use std::process::Command;
    use std::time::Duration;

    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, setxattr, utimensat};

    use super::super::tree;
    use super::*;

    /// Tree and its copy.
    struct Copies {
        top: PathBuf,
        one: PathBuf,
        other: PathBuf,
    }

    impl Copies {
        fn new(name: &str) -> Self {
            let name = format!("crash-compare-{name}-{}", std::process::id());
            let top = std::env::temp_dir().join(name);
            fs::remove_dir_all(&top).ok();
            let (one, other) = (top.join("one"), top.join("other"));
            fs::create_dir_all(&one).unwrap();
            tree::make(&one, 120, 200_000, 7).unwrap();
            copy(&one, &other);
            Self { top, one, other }
        }

        /// Returns the differences of the complete and of the interrupted copy.
        fn faults(&self) -> [Vec<String>; 2] {
            let compared = [complete, interrupted].map(|which| which(&self.one, &self.other));
            compared.map(Result::unwrap)
        }

        /// Sets the time of an entry in the copy, and of its directory, as in the tree.
        fn restore_times(&self, path: &str) {
            let folder = Path::new(path).parent().unwrap();
            for path in [Path::new(path), folder] {
                let meta = fs::symlink_metadata(self.one.join(path)).unwrap();
                let time = Timespec {
                    tv_sec: meta.mtime(),
                    tv_nsec: meta.mtime_nsec(),
                };
                let times = Timestamps {
                    last_access: time,
                    last_modification: time,
                };
                let place = self.other.join(path);
                utimensat(CWD, &place, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            }
        }

        /// Asserts that `change` of an entry of the copy, whose times are set back, is found.
        fn assert_found(&self, path: &str, change: impl FnOnce(&Path), what: &str) {
            change(&self.other.join(path));
            self.restore_times(path);
            let expected = vec![format!("{path}: {what}")];
            assert_eq!(self.faults(), [expected.clone(), expected]);
        }
    }

    impl Drop for Copies {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.top).ok();
        }
    }

    fn copy(from: &Path, to: &Path) {
        let copied = Command::new("cp").arg("-a").args([from, to]).status();
        assert!(copied.unwrap().success());
    }

    #[test]
    fn equal_trees_have_no_difference() {
        assert_eq!(
            Copies::new("equal").faults(),
            [Vec::<String>::new(), Vec::new()]
        );
    }

    #[test]
    fn missing_and_additional_files_are_found() {
        let copies = Copies::new("missing");
        let missing = copies.other.join(FILE);
        let more = copies.other.join("d20/e0/more");
        fs::rename(&missing, &more).unwrap();
        copies.restore_times(DIRECTORY);
        let [complete, interrupted] = copies.faults();
        let left_over = "d20/e0/more is left over".to_owned();
        // an interrupted copy may lack a file
        assert_eq!(complete, [format!("{FILE} is missing"), left_over]);
        assert_eq!(interrupted, ["d20/e0/more is not of the source"]);
    }

    #[test]
    fn different_mode_is_found() {
        let change = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o645)).unwrap();
        };
        let what = "mode 100645, not 100644";
        Copies::new("mode").assert_found(FILE, change, what);
    }

    #[test]
    fn different_time_is_found() {
        for more in [Duration::from_nanos(1), Duration::from_secs(1)] {
            let copies = Copies::new("time");
            let path = copies.other.join(FILE);
            let file = File::options().write(true).open(path).unwrap();
            let time = file.metadata().unwrap().modified().unwrap();
            file.set_modified(time + more).unwrap();
            let expected = [format!("{FILE}: different time")];
            assert_eq!(copies.faults(), [expected.clone(), expected]);
        }
    }

    #[test]
    fn different_link_target_is_found() {
        let change = |path: &Path| {
            fs::remove_file(path).unwrap();
            symlink("small-3", path).unwrap();
        };
        let copies = Copies::new("target");
        copies.assert_found("d2/e2/link-2", change, "different link target");
    }

    #[test]
    fn different_bytes_are_found() {
        let change = |path: &Path| {
            let file = File::options().read(true).write(true).open(path).unwrap();
            let mut octet = [0];
            file.read_exact_at(&mut octet, 0).unwrap();
            file.write_all_at(&[octet[0] ^ 1], 0).unwrap();
        };
        Copies::new("bytes").assert_found(FILE, change, "different bytes");
    }

    #[test]
    fn different_attribute_is_found() {
        let change = |path: &Path| {
            let mode = fs::metadata(path).unwrap().permissions();
            // a user may not change attributes of a file that is read-only
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
            setxattr(path, ATTRIBUTE, b"other", XattrFlags::empty()).unwrap();
            fs::set_permissions(path, mode).unwrap();
        };
        let what = "different extended attribute";
        for path in ["d23/e3/small-23", FILE] {
            Copies::new("attribute").assert_found(path, change, what);
        }
    }

    #[test]
    fn different_number_of_names_is_found() {
        let copies = Copies::new("names");
        let (first, name) = ("d1/e1/small-1", "d1/e1/name-1");
        let path = copies.other.join(name);
        fs::remove_file(&path).unwrap();
        copy(&copies.other.join(first), &path);
        copies.restore_times(name);
        let [complete, interrupted] = copies.faults();
        let expected = [name, first].map(|path| format!("{path} has another number of names"));
        assert_eq!(complete, expected);
        // hard links of an interrupted copy may be incomplete
        assert_eq!(interrupted, [""; 0]);
    }

    /// File of mode 644 without other names or an attribute.
    const FILE: &str = "d20/e0/small-20";
    const DIRECTORY: &str = "d20/e0";
}
