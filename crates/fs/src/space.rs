//! Free space of a file system, so that a transfer that cannot fit is refused before its first
//! byte.
//!
//! [`Space`] collects the limits that apply to this user: size and inodes of the file system, and
//! the quotas of user and group. Root has no quota. [`Space::check`] reserves nothing, so later
//! writes may still fail. Space is in bytes.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use lighthaul_base::Size;
use lighthaul_io::host::file_calls::{Quota, QuotaOwner, quota};
use rustix::fs::fstatvfs;
use rustix::process::{getegid, geteuid};

/// Free space of a file system: bytes and files, each within its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    left: Vec<FreeSpace>,
}

/// Free space under one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreeSpace {
    limit: Limit,
    bytes: Option<u64>,
    files: Option<u64>,
}

/// Limit of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Size of the file system.
    FileSystem,
    /// Quota of the user.
    UserQuota,
    /// Quota of the group.
    GroupQuota,
}

impl Space {
    /// Determines the free space for this user on the file system of an open directory.
    pub fn of(folder: &impl AsFd) -> io::Result<Self> {
        let disk = fstatvfs(folder)?;
        let is_root = geteuid().is_root();
        let blocks = if is_root { disk.f_bfree } else { disk.f_bavail };
        let files = if is_root { disk.f_ffree } else { disk.f_favail };
        let mut left = vec![FreeSpace {
            limit: Limit::FileSystem,
            // File systems without a disk report zero blocks.
            bytes: (disk.f_blocks > 0).then(|| blocks.saturating_mul(disk.f_frsize)),
            // File systems that create inodes on demand report zero files.
            files: (disk.f_files > 0).then_some(files),
        }];
        if !is_root {
            let user = quota(folder, QuotaOwner::User(geteuid().as_raw()));
            let group = quota(folder, QuotaOwner::Group(getegid().as_raw()));
            left.extend(user.map(|quota| free(Limit::UserQuota, &quota)));
            left.extend(group.map(|quota| free(Limit::GroupQuota, &quota)));
        }
        Ok(Self { left })
    }

    /// Fails if `bytes` in `files` new files certainly do not fit. Success is no guarantee.
    pub fn check(&self, bytes: u64, files: u64) -> Result<(), InsufficientSpace> {
        for left in &self.left {
            let limit = left.limit;
            if let Some(room) = left.bytes.filter(|room| *room < bytes) {
                let shortage = Shortage::Bytes(Size(bytes), Size(room));
                return Err(InsufficientSpace { limit, shortage });
            }
            if let Some(room) = left.files.filter(|room| *room < files) {
                let shortage = Shortage::Files(files, room);
                return Err(InsufficientSpace { limit, shortage });
            }
        }
        Ok(())
    }

    /// Returns the bytes that fit, by the tightest limit.
    pub fn bytes(&self) -> u64 {
        let bytes = self.left.iter().filter_map(|left| left.bytes);
        bytes.min().unwrap_or(u64::MAX)
    }
}

/// Error of a transfer that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsufficientSpace {
    /// Limit that is exceeded.
    pub limit: Limit,
    shortage: Shortage,
}

/// Need, and free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shortage {
    Bytes(Size, Size),
    Files(u64, u64),
}

impl fmt::Display for InsufficientSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shortage {
            Shortage::Bytes(need, _) => write!(f, "the transfer needs {need}, but ")?,
            Shortage::Files(need, _) => write!(f, "the transfer needs {need} new files, but ")?,
        }
        match self.limit {
            Limit::FileSystem => write!(f, "the target's file system has room for ")?,
            Limit::UserQuota => write!(f, "the user's quota on the target leaves ")?,
            Limit::GroupQuota => write!(f, "the group's quota on the target leaves ")?,
        }
        match self.shortage {
            Shortage::Bytes(_, room) => write!(f, "{room}")?,
            Shortage::Files(_, room) => write!(f, "{room}")?,
        }
        write!(f, "; free space there, or choose another target")
    }
}

impl std::error::Error for InsufficientSpace {}

/// Computes a quota's free space. A hard limit of zero means no limit. Limits of space are in KiB.
fn free(limit: Limit, quota: &Quota) -> FreeSpace {
    let room = |hard: u64, used: u64| (hard > 0).then(|| hard.saturating_sub(used));
    let bytes = quota.kib_max.saturating_mul(1024);
    FreeSpace {
        limit,
        bytes: room(bytes, quota.bytes_used),
        files: room(quota.files_max, quota.files_used),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tightest_space_limit_refuses_files_and_names_the_remedy() {
        let quota = Quota {
            kib_max: 2048,
            bytes_used: 1 << 20,
            files_max: 10,
            files_used: 12,
        };
        let disk = FreeSpace {
            limit: Limit::FileSystem,
            bytes: Some(1 << 30),
            files: None,
        };
        let space = Space {
            left: vec![disk, free(Limit::UserQuota, &quota)],
        };
        assert_eq!(space.bytes(), 1 << 20);
        assert_eq!(space.check(1 << 20, 0), Ok(()));
        let text = |bytes, files| space.check(bytes, files).unwrap_err().to_string();
        assert_eq!(
            text(2 << 20, 0),
            "the transfer needs 2.00 MiB, but the user's quota on the target leaves 1.00 MiB; \
             free space there, or choose another target"
        );
        assert_eq!(
            text(2 << 30, 0),
            "the transfer needs 2.00 GiB, but the target's file system has room for 1.00 GiB; \
             free space there, or choose another target"
        );
        assert!(text(0, 1).starts_with(
            "the transfer needs 1 new files, but the user's quota on the target leaves 0"
        ));
    }

    #[test]
    fn quota_without_hard_limits_is_unlimited() {
        let left = free(Limit::GroupQuota, &Quota::default());
        assert_eq!((left.bytes, left.files), (None, None));
    }
}
