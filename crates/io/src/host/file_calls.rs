//! System calls for open files and folders that other crates have no safe wrapper for.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// Begins to write all changed pages of a file to its device. A failure only means that writeback starts later.
pub fn start_writeback(file: impl AsFd) {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open.
    unsafe { libc::sync_file_range(fd, 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Quota of a user or a group on a file system. A limit of zero means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Hard limit in KiB.
    pub kib_max: u64,
    /// Used space in bytes.
    pub bytes_used: u64,
    /// Hard limit of files.
    pub files_max: u64,
    /// Existing files.
    pub files_used: u64,
}

/// Owner of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaOwner {
    /// User with the given ID.
    User(u32),
    /// Group with the given ID.
    Group(u32),
}

/// Reads a quota on the file system of `folder`; `None` without a readable quota (before Linux 5.14, on NFS).
pub fn quota(folder: impl AsFd, owner: QuotaOwner) -> Option<Quota> {
    let (kind, id) = match owner {
        QuotaOwner::User(id) => (0, id),
        QuotaOwner::Group(id) => (1, id),
    };
    let mut quota = MaybeUninit::<libc::dqblk>::zeroed();
    let fd = folder.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and quota takes the one dqblk that Q_GETQUOTA writes.
    let status = unsafe {
        libc::syscall(
            libc::SYS_quotactl_fd,
            fd,
            libc::QCMD(libc::Q_GETQUOTA, kind),
            id,
            quota.as_mut_ptr(),
        )
    };
    // SAFETY: zeroes are valid, and so is the kernel's answer.
    let quota = unsafe { quota.assume_init() };
    (status == 0).then_some(Quota {
        kib_max: quota.dqb_bhardlimit,
        bytes_used: quota.dqb_curspace,
        files_max: quota.dqb_ihardlimit,
        files_used: quota.dqb_curinodes,
    })
}
