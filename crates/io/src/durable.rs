//! Small files that are replaced whole: keys, lists, tokens, state.
//!
//! The new content is written beside the file under another name, synced, and renamed; then the folder is
//! synced. After a crash or a power cut the file is the old one or the new one, never empty or torn, and once
//! these functions have returned it is the new one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, fsync};

/// Mode of a file that is made: its owner alone reads it.
const PRIVATE: u32 = 0o600;

/// Replaces the file at `path`, or makes it, with a mode for its owner alone. A file that is there keeps its
/// mode and its owner; of a symbolic link, the file it points at is replaced.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    edit(path, |_| Ok((Some(content.to_vec()), ())))
}

/// Hands the content of the file at `path` to `change`, nothing if it is missing, and replaces the file by what
/// `change` answers, if anything. Of several at once, in whatever process, each sees what the one before left.
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

/// Makes the folder at `path` and those above it, each of them synced in the one above.
pub fn make_folders(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    make_folders(above)?;
    match fs::create_dir(path) {
        // somebody else was faster
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    sync_names(OpenOptions::new().read(true).open(above)?)
}

/// Brings the names in `folder` to disk.
///
/// Once a write of its log has failed, XFS syncs a folder without a word if nothing of it is left to write. That it
/// has shut down is said when the folder is looked at.
pub(crate) fn sync_names(folder: impl AsFd) -> io::Result<()> {
    fsync(&folder)?;
    fstat(&folder)?;
    Ok(())
}

/// Writes `content` under another name and renames it to `path`.
fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = beside(path);
    // one that a crash left
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

/// Writes `content` to the disk, with the mode and the owner of the file at `like`, if there is one.
fn fill(file: &mut File, content: &[u8], like: &Path) -> io::Result<()> {
    file.write_all(content)?;
    if let Ok(before) = fs::metadata(like) {
        // only root may give files away; whoever else may replace this one owns the new one
        fchown(&*file, Some(before.uid()), Some(before.gid())).ok();
        file.set_permissions(before.permissions())?;
    }
    // after a sync that failed the kernel may take lost pages for written ones: there is no second try
    file.sync_all()
}

/// The file itself, where `path` is a symbolic link to one.
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

/// The name of the new content until it takes the place of the old.
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
    fn a_file_is_made_in_new_folders_and_replaced_with_its_mode() {
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
    fn a_file_keeps_its_owner() {
        if lighthaul_testkit::lacks_root("a_file_keeps_its_owner") {
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
    fn a_link_stays_and_its_target_is_replaced() {
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
    fn edits_at_once_see_each_other() {
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
    fn what_a_crash_left_is_in_nobodys_way_and_is_not_followed() {
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
