//! How much a file system still takes, so that what cannot fit is refused before its first byte.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use lighthaul_base::Size;
use rustix::fs::{fstat, fstatvfs};
use rustix::process::{getegid, geteuid};

use crate::disk::Root;

/// What is left on a file system, by each of its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    left: Vec<Left>,
}

/// What one limit leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    limit: Limit,
    bytes: Option<u64>,
    files: Option<u64>,
}

/// What there is only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The file system itself.
    FileSystem,
    /// What the user may have of it.
    UserQuota,
    /// What the group may have of it.
    GroupQuota,
}

impl Space {
    /// That of the file system which `folder`, an open one, is on, for this user.
    pub fn of(folder: &impl AsFd) -> io::Result<Self> {
        let disk = fstatvfs(folder)?;
        let is_root = geteuid().is_root();
        let blocks = if is_root { disk.f_bfree } else { disk.f_bavail };
        let files = if is_root { disk.f_ffree } else { disk.f_favail };
        let mut left = vec![Left {
            limit: Limit::FileSystem,
            // some have no disk behind them, and say zero
            bytes: (disk.f_blocks > 0).then(|| blocks.saturating_mul(disk.f_frsize)),
            // some make room for files as they come, and say zero
            files: (disk.f_files > 0).then_some(files),
        }];
        if !is_root {
            let user = quota(folder, Limit::UserQuota, geteuid().as_raw());
            let group = quota(folder, Limit::GroupQuota, getegid().as_raw());
            left.extend([user, group].into_iter().flatten());
        }
        Ok(Self { left })
    }

    /// Whether `bytes` in so many new `files` can fit; the answer is no only where that is certain.
    pub fn check(&self, bytes: u64, files: u64) -> Result<(), TooLittle> {
        for left in &self.left {
            let limit = left.limit;
            if let Some(room) = left.bytes.filter(|room| *room < bytes) {
                let short = Short::Bytes(Size(bytes), Size(room));
                return Err(TooLittle { limit, short });
            }
            if let Some(room) = left.files.filter(|room| *room < files) {
                let short = Short::Files(files, room);
                return Err(TooLittle { limit, short });
            }
        }
        Ok(())
    }

    /// How many bytes fit, by the tightest limit.
    pub fn bytes(&self) -> u64 {
        let bytes = self.left.iter().filter_map(|left| left.bytes);
        bytes.min().unwrap_or(u64::MAX)
    }
}

impl Root {
    /// The number of the file system that `path` is or would be on.
    pub fn device(&mut self, path: &Path) -> io::Result<u64> {
        let (folder, _) = self.parent(path)?;
        Ok(fstat(folder)?.st_dev)
    }

    /// What is left where `path` is or would be.
    pub fn space(&mut self, path: &Path) -> io::Result<Space> {
        let (folder, _) = self.parent(path)?;
        Space::of(folder)
    }
}

/// What does not fit, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLittle {
    /// What there is too little of.
    pub limit: Limit,
    short: Short,
}

/// What is to come, and what there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Short {
    Bytes(Size, Size),
    Files(u64, u64),
}

impl fmt::Display for TooLittle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.short {
            Short::Bytes(need, _) => write!(f, "{need} are to come, but ")?,
            Short::Files(need, _) => write!(f, "{need} new files are to come, but ")?,
        }
        match self.limit {
            Limit::FileSystem => write!(f, "the file system has room for ")?,
            Limit::UserQuota => write!(f, "the user's quota there leaves ")?,
            Limit::GroupQuota => write!(f, "the group's quota there leaves ")?,
        }
        match self.short {
            Short::Bytes(_, room) => write!(f, "{room}")?,
            Short::Files(_, room) => write!(f, "{room}")?,
        }
        write!(f, ": make room, or choose another target")
    }
}

impl std::error::Error for TooLittle {}

/// What a quota leaves; nothing where there is none, or where one cannot ask (before Linux 5.14, on NFS).
fn quota(folder: &impl AsFd, limit: Limit, id: u32) -> Option<Left> {
    let kind = match limit {
        Limit::FileSystem => return None,
        Limit::UserQuota => 0,
        Limit::GroupQuota => 1,
    };
    let mut quota = std::mem::MaybeUninit::<libc::dqblk>::zeroed();
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
    // SAFETY: all zeroes are valid, and what the kernel fills in is, too.
    let quota = unsafe { quota.assume_init() };
    (status == 0).then(|| left(limit, &quota))
}

/// A hard limit of zero is none; that of bytes is counted in KiB.
fn left(limit: Limit, quota: &libc::dqblk) -> Left {
    let room = |hard: u64, used: u64| (hard > 0).then(|| hard.saturating_sub(used));
    let bytes = quota.dqb_bhardlimit.saturating_mul(1024);
    Left {
        limit,
        bytes: room(bytes, quota.dqb_curspace),
        files: room(quota.dqb_ihardlimit, quota.dqb_curinodes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_refuses_with_a_sentence() {
        let quota = libc::dqblk {
            dqb_bhardlimit: 2048,
            dqb_curspace: 1 << 20,
            dqb_ihardlimit: 10,
            dqb_curinodes: 12,
            // SAFETY: a struct of numbers, for which all zeroes are valid.
            ..unsafe { std::mem::zeroed() }
        };
        let disk = Left {
            limit: Limit::FileSystem,
            bytes: Some(1 << 30),
            files: None,
        };
        let space = Space {
            left: vec![disk, left(Limit::UserQuota, &quota)],
        };
        assert_eq!(space.bytes(), 1 << 20);
        assert_eq!(space.check(1 << 20, 0), Ok(()));
        let text = |bytes, files| space.check(bytes, files).unwrap_err().to_string();
        assert_eq!(
            text(2 << 20, 0),
            "2.00 MiB are to come, but the user's quota there leaves 1.00 MiB: \
             make room, or choose another target"
        );
        assert_eq!(
            text(2 << 30, 0),
            "2.00 GiB are to come, but the file system has room for 1.00 GiB: \
             make room, or choose another target"
        );
        assert!(
            text(0, 1).starts_with("1 new files are to come, but the user's quota there leaves 0")
        );
    }

    #[test]
    fn a_quota_without_hard_limits_limits_nothing() {
        // SAFETY: a struct of numbers, for which all zeroes are valid.
        let left = left(Limit::GroupQuota, &unsafe { std::mem::zeroed() });
        assert_eq!((left.bytes, left.files), (None, None));
    }
}
