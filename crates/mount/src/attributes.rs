//! Attributes and errors, in the types of the kernel.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use lighthaul_files::request::{FileInfo, FileKind};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_remote_files::failure::{Failure, FailureKind};
use lighthaul_session::error::Code;

/// Size of the blocks in which programs count disk usage.
const BLOCK_LEN: u32 = 4096;

/// Returns the attributes of an item.
pub(crate) fn attributes(ino: u64, info: &FileInfo) -> FileAttr {
    let time = time_of(info.seconds, info.nanos);
    FileAttr {
        ino: INodeNo(ino),
        size: info.size,
        blocks: info.size.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: kind_of(&info.kind),
        perm: (info.mode & 0o7777) as u16,
        nlink: 1,
        uid: info.user,
        gid: info.group,
        rdev: 0,
        blksize: BLOCK_LEN,
        flags: 0,
    }
}

/// Returns the type of an item. Devices, FIFOs and sockets are shown as FIFOs, which nothing opens.
pub(crate) const fn kind_of(kind: &FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Folder => FileType::Directory,
        FileKind::Link(_) => FileType::Symlink,
        FileKind::Other => FileType::NamedPipe,
    }
}

/// Returns a time, in seconds since 1970 and nanoseconds.
pub(crate) fn seconds_of(time: TimeOrNow) -> (i64, u32) {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => UNIX_EPOCH + Duration::from_nanos(unix_nanos()),
    };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            since.subsec_nanos(),
        ),
        Err(before) => (
            i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
            0,
        ),
    }
}

fn time_of(seconds: i64, nanos: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    let time = base.and_then(|base| base.checked_add(Duration::from_nanos(nanos.into())));
    time.unwrap_or(UNIX_EPOCH)
}

/// Returns the error number of a failure.
pub(crate) const fn errno(failure: &Failure) -> Errno {
    if matches!(failure.code, Code::Interrupted) {
        return Errno::EINTR;
    }
    match failure.kind {
        FailureKind::NotFound => Errno::ENOENT,
        FailureKind::Exists => Errno::EEXIST,
        FailureKind::NotFolder => Errno::ENOTDIR,
        FailureKind::IsFolder => Errno::EISDIR,
        FailureKind::NotEmpty => Errno::ENOTEMPTY,
        FailureKind::Denied => Errno::EACCES,
        FailureKind::NoSpace => Errno::ENOSPC,
        FailureKind::ReadOnly => Errno::EROFS,
        FailureKind::Changed => Errno::ESTALE,
        FailureKind::Busy | FailureKind::Crowded => Errno::EBUSY,
        FailureKind::Invalid => Errno::EINVAL,
        FailureKind::Corrupt | FailureKind::Lost | FailureKind::Other => Errno::EIO,
    }
}
