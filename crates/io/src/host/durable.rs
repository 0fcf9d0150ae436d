//! Atomic replacement of small files: keys, lists, tokens, state.
//!
//! The new content is written to a temporary file in the same directory, synced and renamed; then the
//! directory is synced. After a crash or power failure, the file has its old or its new content, never
//! a mixture. When a function here has returned, the new content is on disk.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, fsync};

/// Mode of a new file: only its owner may read and write it.
const PRIVATE: u32 = 0o600;

/// Reads the first `len_max` bytes of the file at `path`. Returns none if there is no such file.
pub fn read(path: &Path, len_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut octets = Vec::new();
    file.take(len_max).read_to_end(&mut octets)?;
    Ok(Some(octets))
}

/// Replaces the file at `path` with its mode and owner, or creates it with mode 0600. Follows a symbolic link.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    edit(path, |_| Ok((Some(content.to_vec()), ())))
}

/// Passes the content of the file at `path` to `change`, and replaces it with the content that this returns, if any.
///
/// The content is `None` if the file is missing. Concurrent edits, also of other processes, wait for each other.
pub fn edit<T>(
    path: &Path,
    change: impl FnOnce(Option<Vec<u8>>) -> io::Result<(Option<Vec<u8>>, T)>,
) -> io::Result<T> {
    let path = target(path)?;
    let folder = folder_of(&path);
    make_folders(folder)?;
    let folder = OpenOptions::new().read(true).open(folder)?;
    folder.lock()?;
    let old = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        old => Some(old?),
    };
    let (new, answer) = change(old)?;
    if let Some(new) = new {
        put(&path, &new)?;
        sync_names(&folder)?;
    }
    Ok(answer)
}

/// Creates the directory at `path` and its missing parents, and syncs each in its parent.
pub fn make_folders(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    make_folders(above)?;
    match fs::create_dir(path) {
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    sync_names(OpenOptions::new().read(true).open(above)?)
}

/// Writes the entries of `folder` to disk.
///
/// XFS reports success even after a failed write of its log; fstat(2) then reports that the file system has shut down.
pub fn sync_names(folder: impl AsFd) -> io::Result<()> {
    fsync(&folder)?;
    fstat(&folder)?;
    Ok(())
}

/// Writes `content` to a temporary file and renames it to `path`.
fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = beside(path);
    // Remove a temporary file left by a crash.
    match fs::remove_file(&new) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        removed => removed?,
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(&new)?;
    let written = fill(&mut file, content, path).and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| {
        fs::remove_file(&new).ok();
    })
}

/// Writes `content` to disk, with the mode and owner of the file at `like`, if it exists.
fn fill(file: &mut File, content: &[u8], like: &Path) -> io::Result<()> {
    file.write_all(content)?;
    if let Ok(before) = fs::metadata(like) {
        // Only root may change the owner; otherwise this user owns the new file.
        fchown(&*file, Some(before.uid()), Some(before.gid())).ok();
        file.set_permissions(before.permissions())?;
    }
    // No retry: after a failed sync, the kernel may count lost pages as written.
    file.sync_all()
}

/// Returns the target of `path` if it is a symbolic link, otherwise `path`.
fn target(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => match fs::canonicalize(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(folder_of(path).join(fs::read_link(path)?))
            }
            target => target,
        },
        _ => Ok(path.to_owned()),
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

/// Returns the path of the temporary file for `path`.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let name = format!("lighthaul-durable-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::remove_dir_all(&folder).ok();
        folder
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn replace_creates_folders_and_keeps_the_mode() {
        let folder = scratch("replace");
        let path = folder.join("a/b/file");
        replace(&path, b"one").unwrap();
        assert_eq!(mode(&path), PRIVATE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(
            (fs::read(&path).unwrap().as_slice(), mode(&path)),
            (&b"two"[..], 0o640)
        );
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn replace_keeps_the_owner() {
        if lighthaul_testkit::lacks_root("replace_keeps_the_owner") {
            return;
        }
        let folder = scratch("owner");
        let path = folder.join("file");
        replace(&path, b"one").unwrap();
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
        replace(&path, b"two").unwrap();
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (1234, 4321));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn replace_follows_symbolic_links() {
        let folder = scratch("link");
        replace(&folder.join("real/file"), b"one").unwrap();
        symlink("real/file", folder.join("name")).unwrap();
        symlink("real/none", folder.join("dangling")).unwrap();
        replace(&folder.join("name"), b"two").unwrap();
        replace(&folder.join("dangling"), b"three").unwrap();
        assert!(
            fs::symlink_metadata(folder.join("name"))
                .unwrap()
                .is_symlink()
        );
        assert_eq!(fs::read(folder.join("real/file")).unwrap(), b"two");
        assert_eq!(fs::read(folder.join("real/none")).unwrap(), b"three");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn concurrent_edits_lose_no_change() {
        let folder = scratch("edits");
        let path = folder.join("file");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let append = |old: Option<Vec<u8>>| {
                        let new = [old.unwrap_or_default().as_slice(), b"x"].concat();
                        Ok((Some(new), ()))
                    };
                    (0..10).for_each(|_| edit(&path, append).unwrap());
                });
            }
        });
        assert_eq!(fs::read(&path).unwrap().len(), 80);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn leftover_temporary_file_is_removed_and_not_followed() {
        let folder = scratch("left");
        let path = folder.join("file");
        replace(&path, b"one").unwrap();
        fs::write(folder.join("other"), b"mine").unwrap();
        symlink("other", beside(&path)).unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(folder.join("other")).unwrap(), b"mine");
        assert_eq!(fs::read(&path).unwrap(), b"two");
        fs::remove_dir_all(folder).unwrap();
    }
}
