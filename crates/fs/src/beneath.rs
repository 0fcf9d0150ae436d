//! Opens files beneath a directory and refuses paths that lead out of it (openat2(2)).

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, Result};

/// Attempts to open a path before `EAGAIN` is returned. The kernel rejects a walk that overlaps a
/// rename; walks are short, so a second attempt is rare.
const WALKS_MAX: usize = 1_000;

/// Opens `path` relative to `folder`. Refuses a path that leaves `folder` or passes a magic link.
///
/// A `..`, for example in a symbolic link, makes the kernel check that the walk stays beneath
/// `folder`. It returns `EAGAIN` if any file was renamed meanwhile (openat2(2)), and the walk is
/// retried.
pub(crate) fn open(
    folder: impl AsFd,
    path: impl AsRef<Path>,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd> {
    resolve(
        folder,
        path.as_ref(),
        (flags, mode),
        ResolveFlags::NO_MAGICLINKS,
    )
}

/// Opens the directory at `path` relative to `folder` for reading. Refuses a path that leaves `folder` or passes any
/// symbolic link.
pub(crate) fn enter(folder: impl AsFd, path: impl AsRef<Path>) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let how = (flags, Mode::empty());
    resolve(folder, path.as_ref(), how, ResolveFlags::NO_SYMLINKS)
}

fn resolve(
    folder: impl AsFd,
    path: &Path,
    (flags, mode): (OFlags, Mode),
    links: ResolveFlags,
) -> Result<OwnedFd> {
    let folder = folder.as_fd();
    let beneath = ResolveFlags::BENEATH | links;
    for _ in 1..WALKS_MAX {
        match openat2(folder, path, flags, mode, beneath) {
            Err(Errno::AGAIN) => thread::yield_now(),
            opened => return opened,
        }
    }
    openat2(folder, path, flags, mode, beneath)
}
