//! Requests about names: describing, listing, renaming, removing.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lighthaul_files::request::{FileInfo, FileKind};
use lighthaul_files::special::special;
use lighthaul_files::temp_names::{Writer, is_hidden, lock_file_of};
use lighthaul_fs::disk::Root;
use lighthaul_fs::file_access::Folder;
use lighthaul_session::error::{Error, FileAction};

use crate::failure::{Failure, FailureKind};
use crate::message::FileVersion;
use crate::server::shared::{MODE_MAX, Scope};

/// Names of a directory that are read at a time.
const NAMES_MAX: usize = 1000;
/// Approximate size of one part of a list, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Returns the description and the version of the item at `path`.
pub(super) fn stat(
    scope: &Scope,
    path: &Path,
    follow: bool,
) -> Result<(FileInfo, FileVersion), Failure> {
    let octets = path.as_os_str().as_bytes();
    let found = || {
        let (meta, target) = match scope.access.parent(path)? {
            Some((folder, name)) if !follow => {
                let meta = folder.look(name)?;
                let target = meta.kind.is_symlink().then(|| folder.link(name));
                (meta, target.transpose()?)
            }
            _ => (scope.access.look_through(path)?, None),
        };
        let version = FileVersion::from(meta.version());
        Ok((FileInfo::of(&meta, target, octets), version))
    };
    found().map_err(|error| Failure::of(FileAction::ReadMetadata, path, &error))
}

/// Passes the items of the directory at `path` to `say`, in parts. Fails if `say` does; the inner failure is about the
/// directory.
pub(super) fn list(
    scope: &Scope,
    path: &Path,
    mut say: impl FnMut(Vec<FileInfo>) -> Result<(), Error>,
) -> Result<Result<(), Failure>, Error> {
    let failed = |error: io::Error| Ok(Err(Failure::of(FileAction::List, path, &error)));
    let mut folder = match scope.access.folder(path) {
        Ok(folder) => folder,
        Err(error) => return failed(error),
    };
    let (mut items, mut bytes) = (Vec::new(), 0);
    loop {
        let names = match folder.names(NAMES_MAX) {
            Ok(names) if names.is_empty() => break,
            Ok(names) => names,
            Err(error) => return failed(error),
        };
        for name in names.iter().filter(|name| !is_hidden(name)) {
            let item = match item(&folder, name) {
                Ok(item) => item,
                // it was removed after its name was read
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return failed(error),
            };
            let target = match &item.kind {
                FileKind::Link(target) => target.len(),
                FileKind::File | FileKind::Folder | FileKind::Other => 0,
            };
            bytes += size_of::<FileInfo>() + item.path.len() + target;
            items.push(item);
            if bytes >= PIECE_BYTES {
                bytes = 0;
                say(std::mem::take(&mut items))?;
            }
        }
    }
    if !items.is_empty() {
        say(items)?;
    }
    Ok(Ok(()))
}

fn item(folder: &Folder, name: &OsStr) -> io::Result<FileInfo> {
    let meta = folder.look(name)?;
    let target = meta.kind.is_symlink().then(|| folder.link(name));
    Ok(FileInfo::of(&meta, target.transpose()?, name.as_bytes()))
}

/// Renames `from` to `to`, and makes that durable.
pub(super) fn rename(scope: &Scope, from: &Path, to: &Path, replace: bool) -> Result<(), Failure> {
    check_replaced(scope, from)?;
    if replace {
        check_replaced(scope, to)?;
    }
    let renamed = || {
        let (mut source, old) = parent(scope, from)?;
        let (mut target, new) = parent(scope, to)?;
        if replace {
            target.rename_from(&mut source, old, new)?;
        } else {
            target.rename_new_from(&mut source, old, new)?;
        }
        target.sync_folder()?;
        if from.parent() == to.parent() {
            return Ok(());
        }
        source.sync_folder()
    };
    renamed().map_err(|error| {
        let path = if error.kind() == io::ErrorKind::AlreadyExists {
            to
        } else {
            from
        };
        Failure::of(FileAction::Rename, path, &error)
    })
}

/// Removes the item at `path`, and makes that durable.
pub(super) fn remove(scope: &Scope, path: &Path, is_folder: bool) -> Result<(), Failure> {
    if !is_folder {
        check_replaced(scope, path)?;
    }
    let removed = || {
        let (mut root, name) = parent(scope, path)?;
        if is_folder {
            remove_folder(scope, path, (&mut root, name))?;
        } else {
            root.remove(name)?;
        }
        root.sync_folder()
    };
    removed().map_err(|error| Failure::of(FileAction::Remove, path, &error))
}

/// Removes an empty directory, after the removal of temporary files that no program uses. They may be of a daemon that
/// was killed, and no list shows them.
fn remove_folder(scope: &Scope, path: &Path, (root, name): (&mut Root, &Path)) -> io::Result<()> {
    match root.remove_folder(name) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        removed => return removed,
    }
    let not_empty = || Err(io::ErrorKind::DirectoryNotEmpty.into());
    let mut left = Vec::new();
    let mut folder = scope.access.folder(path)?;
    loop {
        let names = folder.names(NAMES_MAX)?;
        if names.is_empty() {
            break;
        }
        if !names.iter().all(|name| is_hidden(name)) || left.len() > NAMES_MAX {
            return not_empty();
        }
        left.extend(names);
    }
    let mut inside = scope.access.root(path)?;
    let ours = Writer::new(0);
    // all locks are held until all files are removed
    let mut locks = Vec::new();
    for name in &left {
        // a copy locks a file of its own in the root of its target, not each of its files
        let is_of_copy = lock_file_of(name).is_some();
        let Ok(lock) = inside.lock(Path::new(name)) else {
            return not_empty();
        };
        if is_of_copy && !ours.is_orphan(name) {
            return not_empty();
        }
        locks.push(lock);
    }
    for name in &left {
        inside.remove(Path::new(name))?;
    }
    drop(locks);
    root.remove_folder(name)
}

/// Creates the directory at `path`, and makes that durable.
pub(super) fn make(scope: &Scope, path: &Path) -> Result<(), Failure> {
    let made = || {
        // the root has no name, and exists
        if path.file_name().is_some() {
            check_name(path)?;
        }
        if !scope.access.make_folder(path)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        sync_parent(scope, path)
    };
    made().map_err(|error| Failure::of(FileAction::CreateFolder, path, &error))
}

/// Creates the symbolic link `path` to `target`, and makes that durable.
pub(super) fn make_link(scope: &Scope, path: &Path, target: &[u8]) -> Result<(), Failure> {
    let made = || {
        let (mut root, name) = parent(scope, path)?;
        root.make_link(name, OsStr::from_bytes(target))?;
        root.sync_folder()
    };
    made().map_err(|error| Failure::of(FileAction::CreateLink, path, &error))
}

/// Sets permission bits and the modification time of the item at `path`.
pub(super) fn set(
    scope: &Scope,
    path: &Path,
    mode: Option<u32>,
    time: Option<(i64, u32)>,
) -> Result<(), Failure> {
    check_replaced(scope, path)?;
    let set = || {
        let (mut root, name) = if path.file_name().is_some() {
            parent(scope, path)?
        } else {
            (scope.access.root(path)?, Path::new(""))
        };
        if let Some(mode) = mode {
            // a client cannot set the bits above, and does not remove them by setting others
            let there = root.look(name)?.map_or(0, |meta| meta.mode);
            root.set_mode(name, mode & MODE_MAX | there & !MODE_MAX & 0o7777)?;
        }
        time.map_or(Ok(()), |(seconds, nanos)| {
            root.set_time(name, seconds, nanos)
        })
    };
    set().map_err(|error| Failure::of(FileAction::SetMetadata, path, &error))
}

/// Returns the directory of `path` for changes, and the last name.
pub(super) fn parent<'a>(scope: &Scope, path: &'a Path) -> io::Result<(Root, &'a Path)> {
    let name = check_name(path)?;
    Ok((scope.access.root(folder_of(path))?, Path::new(name)))
}

/// Returns the last name of `path`. Fails if temporary files have such names: no list shows them, and another
/// client may be writing the file.
fn check_name(path: &Path) -> io::Result<&OsStr> {
    let name = path.file_name();
    let name = name.filter(|name| !is_hidden(name));
    name.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Writes the directory of `path` to disk.
fn sync_parent(scope: &Scope, path: &Path) -> io::Result<()> {
    scope.access.folder(folder_of(path))?.sync()
}

fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

/// Fails if a device, FIFO or socket is at `path`, and the client has no right to replace it.
pub(super) fn check_replaced(scope: &Scope, path: &Path) -> Result<(), Failure> {
    if scope.special {
        return Ok(());
    }
    let there = parent(scope, path).and_then(|(mut root, name)| root.look(name));
    let Ok(Some(meta)) = there else {
        return Ok(());
    };
    special(meta.kind).map_or(Ok(()), |what| {
        let path = path.display();
        let text = format!(
            "cannot replace or remove {path}: it is a {what}, and your key has no right to that \
             (`lighthaul allow --special` grants it)"
        );
        Err(Failure::new(FailureKind::Denied, text))
    })
}
