//! Opening what lies beneath a folder, and nothing else.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, Result};

/// How often a walk that a rename came across is begun again: each one is so short that a second is rare.
const WALKS_MAX: usize = 1_000;

/// Opens `path`, which leads neither out of `folder` nor through a magic link.
///
/// The kernel can't tell whether a `..`, say in a symbolic link, stayed beneath `folder` if anything, anywhere, was
/// renamed during the walk. It says `EAGAIN` then, openat2(2), and the walk begins again.
pub(crate) fn open(
    folder: impl AsFd,
    path: impl AsRef<Path>,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd> {
    let (folder, path) = (folder.as_fd(), path.as_ref());
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 1..WALKS_MAX {
        match openat2(folder, path, flags, mode, beneath) {
            Err(Errno::AGAIN) => thread::yield_now(),
            opened => return opened,
        }
    }
    openat2(folder, path, flags, mode, beneath)
}
