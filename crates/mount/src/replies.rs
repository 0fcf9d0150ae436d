//! Replies to the kernel, and rows of directories.

use std::time::Duration;

use fuser::{Errno, FileAttr, Generation, ReplyEmpty, ReplyEntry};
use lighthaul_files::request::{FileInfo, FileKind};
use lighthaul_remote_files::failure::{Failure, FailureKind};

use crate::attributes::errno;

/// Time for which the kernel keeps names and attributes.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// Result of a request, with the error number for the program.
pub(crate) type Answer<T> = Result<T, Errno>;

/// Returns the path of `name` in the directory at `path`.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() || path.ends_with(b"/") {
        [path, name].concat()
    } else {
        [path, b"/", name].concat()
    }
}

/// Returns the rows of a directory from `offset`, with the offset after each. The first two are the directory itself
/// and the one above.
pub(crate) fn rows(
    items: &[FileInfo],
    offset: u64,
) -> impl Iterator<Item = (u64, &[u8], Option<&FileInfo>)> {
    let dots = [&b"."[..], b".."].into_iter().map(|name| (name, None));
    let items = items.iter().map(|item| (item.path.as_slice(), Some(item)));
    let rows = dots.chain(items).zip(1..);
    let rows = rows.map(|((name, item), nth)| (nth, name, item));
    rows.skip(usize::try_from(offset).unwrap_or(usize::MAX))
}

/// Returns a description of a directory whose attributes the kernel does not use.
pub(crate) const fn folder() -> FileInfo {
    FileInfo {
        path: Vec::new(),
        kind: FileKind::Folder,
        size: 0,
        mode: 0o755,
        user: 0,
        group: 0,
        seconds: 0,
        nanos: 0,
    }
}

/// Returns the error number of a failed write. A file that has its name cannot be rewritten.
pub(crate) fn write_errno(failure: &Failure) -> Errno {
    if failure.kind == FailureKind::Invalid {
        return Errno::EOPNOTSUPP;
    }
    errno(failure)
}

/// Replies with an item.
pub(crate) fn reply_entry(reply: ReplyEntry, found: Answer<FileAttr>) {
    match found {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

/// Replies that a request is done, or failed.
pub(crate) fn reply_empty(reply: ReplyEmpty, done: Answer<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
