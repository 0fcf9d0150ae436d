//! Limits of file names, and their case sensitivity.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fstatvfs, openat, statat, unlinkat};
use rustix::io::Errno;

use crate::disk::Root;

/// Rules of a file system for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRules {
    /// Octets of the longest name.
    pub name_max: usize,
    /// Octets of the longest path that the kernel accepts, relative to the root of a transfer.
    pub path_max: usize,
    /// True if names that differ only in case are one name, such as `README` and `readme`.
    pub folds_case: bool,
}

impl NameRules {
    /// Determines the rules of the file system of `folder`. To test case sensitivity, creates a
    /// file and removes it; `number` makes its name unique.
    pub fn of(folder: &impl AsFd, number: u64) -> io::Result<Self> {
        let stat = fstatvfs(folder)?;
        let name_max = usize::try_from(stat.f_namemax).unwrap_or(usize::MAX);
        Ok(Self {
            name_max: if name_max == 0 { 255 } else { name_max },
            path_max: (libc::PATH_MAX - 1) as usize,
            folds_case: folds_case(folder, number)?,
        })
    }
}

impl Root {
    /// Determines the rules for names in the directory that contains `path`; see [`NameRules::of`].
    pub fn name_rules(&mut self, path: &Path, number: u64) -> io::Result<NameRules> {
        let (folder, _) = self.parent(path)?;
        NameRules::of(folder, number)
    }
}

fn folds_case(folder: &impl AsFd, number: u64) -> io::Result<bool> {
    let name = |letter: char| format!(".lighthaul-{number:016x}-{letter}");
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(folder, name('a'), flags, Mode::RUSR | Mode::WUSR)?;
    let other = statat(folder, name('A'), AtFlags::SYMLINK_NOFOLLOW);
    unlinkat(folder, name('a'), AtFlags::empty())?;
    match other {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
