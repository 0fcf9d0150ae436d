//! Comparison of two trees in all that a copy keeps: bytes, modes, times, links, names and
//! attributes.

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

/// Compares `target` with `source` after a kill. Returns the differences of files with their final
/// names, which must be complete. Directories and hard links may be incomplete.
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
    use super::super::tree;
    use super::*;

    #[test]
    fn differences_are_found() {
        let top = std::env::temp_dir().join(format!("crash-compare-{}", std::process::id()));
        let (one, other) = (top.join("one"), top.join("other"));
        fs::create_dir_all(&one).unwrap();
        tree::make(&one, 120, 200_000, 7).unwrap();
        let copied = std::process::Command::new("cp")
            .arg("-a")
            .args([&one, &other])
            .status();
        assert!(copied.unwrap().success());
        let faults = |which: &dyn Fn(&Path, &Path) -> io::Result<Vec<String>>| {
            which(&one, &other).unwrap().len()
        };
        assert_eq!((faults(&complete), faults(&interrupted)), (0, 0));
        let some = other.join("d20/e0/small-20");
        fs::remove_file(&some).unwrap();
        // The file is missing, and its directory has another time.
        assert!(faults(&complete) >= 1);
        assert_eq!(faults(&interrupted), 0);
        fs::write(&some, "x").unwrap();
        assert!(faults(&complete) > 0 && faults(&interrupted) > 0);
        fs::remove_dir_all(top).unwrap();
    }
}
