//! Metadata of files, directories and links, accessed through open descriptors instead of names.
//!
//! [`Inode`] opens an object once; later renames or links under its name do not redirect it.
//! [`Inode::read`] and [`Inode::apply`] move [`Extras`] between the file system and memory. A part
//! that fails is reported as [`NotKept`], and the other parts are still read or set. The calls need
//! a mounted `/proc`.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, chmod,
    chownat, fstat, openat, utimensat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::disk::Root;
use crate::file_access::FileAccess;
use crate::metadata::attributes;
use crate::metadata::extras::{Extras, Keep, Time};
use crate::metadata::not_kept::{MetadataKind, NotKept, NotKeptReason};

/// Open file, directory or symbolic link, for reading and setting its metadata.
///
/// All calls use the path `/proc/self/fd/N`, which leads to exactly the open object. It also works
/// for a symbolic link itself, and without permission to read or write the file.
#[derive(Debug)]
pub struct Inode<'a> {
    fd: Fd<'a>,
}

#[derive(Debug)]
enum Fd<'a> {
    Lent(BorrowedFd<'a>),
    Own(OwnedFd),
}

impl<'a> Inode<'a> {
    /// Uses an open file or directory.
    pub fn of(file: &'a impl AsFd) -> Self {
        let fd = Fd::Lent(file.as_fd());
        Self { fd }
    }

    /// Opens `name` in `folder`. A symbolic link is not followed.
    fn named(folder: impl AsFd, name: &OsStr) -> io::Result<Inode<'static>> {
        if name == ".." || name.as_encoded_bytes().contains(&b'/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Self::opened(folder, Path::new(name))
    }

    /// Opens `path`. A symbolic link at its end is not followed.
    pub fn at(path: &Path) -> io::Result<Inode<'static>> {
        Self::opened(CWD, path)
    }

    fn opened(folder: impl AsFd, path: &Path) -> io::Result<Inode<'static>> {
        let fd = Fd::Own(openat(folder, path, ITSELF, Mode::empty())?);
        Ok(Inode { fd })
    }

    /// Reads the metadata that `keep` selects. Returns it with a list of the parts that cannot be
    /// read.
    pub fn read(&self, keep: Keep) -> io::Result<(Extras, Vec<NotKept>)> {
        let stat = fstat(self.fd())?;
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let mut extras = Extras {
            mode: (keep.mode && !is_link).then_some(stat.st_mode & 0o7777),
            owner: keep.owner.then_some((stat.st_uid, stat.st_gid)),
            accessed: keep
                .accessed
                .then_some((stat.st_atime, stat.st_atime_nsec as u32)),
            modified: keep
                .modified
                .then_some((stat.st_mtime, stat.st_mtime_nsec as u32)),
            xattrs: Vec::new(),
        };
        let mut not_kept = Vec::new();
        if keep.xattrs || keep.acls {
            attributes::read(&self.path(), keep, &mut extras.xattrs, &mut not_kept);
        }
        Ok((extras, not_kept))
    }

    /// Sets the metadata in `extras` that `keep` selects. Returns the parts that could not be set.
    ///
    /// The order matters: a new owner removes capabilities and set-ID bits, attributes require
    /// write permission, and all changes affect the times.
    pub fn apply(&self, extras: &Extras, keep: Keep) -> Vec<NotKept> {
        let mut not_kept = Vec::new();
        let path = self.path();
        let owner = extras.owner.filter(|_| keep.owner);
        let owned = owner.is_none_or(|owner| self.give(owner, &mut not_kept));
        if keep.xattrs || keep.acls {
            attributes::apply(&path, keep, &extras.xattrs, &mut not_kept);
        }
        if let Some(mode) = extras.mode.filter(|_| keep.mode) {
            let safe = if owned { mode } else { mode & !SET_ID };
            if safe != mode {
                let (part, reason) = (MetadataKind::SetId, NotKeptReason::OtherOwner);
                not_kept.push(NotKept { part, reason });
            }
            if let Err(error) = chmod(&path, Mode::from_bits_truncate(safe & 0o7777)) {
                not_kept.push(NotKept::new(MetadataKind::Mode, error));
            }
        }
        let times = Timestamps {
            last_access: timespec(extras.accessed.filter(|_| keep.accessed)),
            last_modification: timespec(extras.modified.filter(|_| keep.modified)),
        };
        if let Err(error) = utimensat(CWD, &path, &times, AtFlags::empty()) {
            not_kept.push(NotKept::new(MetadataKind::Times, error));
        }
        not_kept
    }

    /// Returns the names of the metadata in `extras` that the file does not have.
    pub fn differences(&self, extras: &Extras, keep: Keep) -> io::Result<Vec<&'static str>> {
        let (there, _) = self.read(keep)?;
        let differences = [
            (extras.mode != there.mode, "mode"),
            // Only root can change the owner.
            (geteuid().is_root() && extras.owner != there.owner, "owner"),
            (extras.modified != there.modified, "time"),
            (extras.accessed != there.accessed, "time of access"),
            (
                attributes::differ(keep, &extras.xattrs, &there.xattrs),
                "attributes",
            ),
        ];
        let differences = differences.into_iter();
        Ok(differences
            .filter_map(|(differs, what)| differs.then_some(what))
            .collect())
    }

    /// Changes owner and group, or only the group if the owner cannot be changed. Returns true if
    /// both were changed.
    fn give(&self, (user, group): (u32, u32), not_kept: &mut Vec<NotKept>) -> bool {
        // The reserved ID would mean "leave unchanged", or panic.
        if user == u32::MAX || group == u32::MAX {
            not_kept.push(NotKept::new(MetadataKind::Owner, Errno::INVAL));
            return false;
        }
        let path = self.path();
        let give = |user: Option<u32>| {
            let user = user.map(Uid::from_raw);
            chownat(
                CWD,
                &path,
                user,
                Some(Gid::from_raw(group)),
                AtFlags::empty(),
            )
        };
        if let Err(error) = give(Some(user)) {
            give(None).ok();
            not_kept.push(NotKept::new(MetadataKind::Owner, error));
            return false;
        }
        true
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Fd::Lent(fd) => fd.as_fd(),
            Fd::Own(fd) => fd.as_fd(),
        }
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd().as_raw_fd())
    }
}

impl Root {
    /// Opens the file, directory or symbolic link at `path`.
    pub fn inode(&mut self, path: &Path) -> io::Result<Inode<'static>> {
        let (folder, name) = self.parent(path)?;
        Inode::named(folder, name)
    }
}

impl FileAccess {
    /// Opens the file, directory or symbolic link at `path`; follows a link if links are followed.
    pub fn inode(&self, path: &Path) -> io::Result<Inode<'static>> {
        let flags = if self.follows {
            ITSELF.difference(OFlags::NOFOLLOW)
        } else {
            ITSELF
        };
        let fd = Fd::Own(self.open(path, flags)?);
        Ok(Inode { fd })
    }
}

fn timespec(time: Option<Time>) -> Timespec {
    let (tv_sec, tv_nsec) =
        time.map_or((0, UTIME_OMIT), |(seconds, nanos)| (seconds, nanos.into()));
    Timespec { tv_sec, tv_nsec }
}

const SET_ID: u32 = 0o6000;
const ITSELF: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
