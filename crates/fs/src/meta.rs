//! Attributes of a directory's entry.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};
use rustix::process::geteuid;

use crate::version::{Look, Version, nanos};

/// Attributes of a directory's entry.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// File type: regular file, directory, link or other.
    pub kind: FileType,
    /// Size in bytes, for a file.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// User ID of the owner.
    pub user: u32,
    /// Group ID.
    pub group: u32,
    /// Modification time, seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the modification time.
    pub nanos: u32,
    /// Last status change, nanoseconds since 1970.
    pub changed: i64,
    /// Allocated space on disk, in bytes.
    pub allocated: u64,
    /// Device and inode number.
    pub inode: (u64, u64),
    /// Number of hard links.
    pub names: u64,
}

impl Meta {
    /// Reports whether the entry belongs to this process's effective user.
    pub fn is_ours(&self) -> bool {
        self.user == geteuid().as_raw()
    }

    /// Returns the version of the file.
    pub const fn version(&self) -> Version {
        Version {
            inode: self.inode,
            changed: self.changed,
            look: Look {
                size: self.size,
                seconds: self.seconds,
                nanos: self.nanos,
            },
        }
    }

    /// Returns the attributes of `name` in `folder`; a symbolic link is not followed.
    pub(crate) fn of(folder: impl AsFd, name: &OsStr) -> io::Result<Self> {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Self::from_stat(&stat))
    }

    /// Returns the attributes of the open file `fd`.
    pub(crate) fn of_open(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self::from_stat(&fstat(fd)?))
    }

    fn from_stat(stat: &Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            user: stat.st_uid,
            group: stat.st_gid,
            seconds: stat.st_mtime,
            nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            changed: nanos(stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
            allocated: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
            inode: (stat.st_dev, stat.st_ino),
            names: stat.st_nlink,
        }
    }
}
