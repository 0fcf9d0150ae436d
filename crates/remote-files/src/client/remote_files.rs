//! Remote files, used by any number of threads.
//!
//! After the loss of a connection, requests that change nothing are repeated on a new one for a minute. A file that is
//! open for reading is opened again, and must have the same version. Other requests fail, since the server may have
//! executed them.

use std::sync::Arc;
use std::time::Duration;

use lighthaul_files::hash::{FileHashes, HashKind};
use lighthaul_files::request::FileInfo;
use lighthaul_session::error::Error;

use crate::client::answer::Answer;
use crate::client::connector::Connector;
use crate::client::links::Links;
use crate::client::patience::patiently;
use crate::client::ranges::{self, ByteRange};
use crate::client::reader::RemoteReader;
use crate::client::writer::RemoteWriter;
use crate::failure::{Failure, FailureKind};
use crate::message::{FileVersion, Message, Request};

/// Remote files of one server. Clones share the connections.
#[derive(Clone, Debug)]
pub struct RemoteFiles(Links);

impl RemoteFiles {
    /// Connects by `connector`, with the rights that `request` asks for.
    pub fn connect(connector: Box<dyn Connector>, request: Request) -> Result<Self, Error> {
        Links::connect(connector, request).map(Self)
    }

    /// Returns the bytes of each range. A range that reaches past the end of its file is shorter. All ranges together
    /// take one round trip and the time on the wire.
    pub fn cat_ranges(&self, wanted: &[ByteRange]) -> Vec<Result<Vec<u8>, Failure>> {
        let mut found: Vec<_> = wanted.iter().map(|_| Ok(Vec::new())).collect();
        self.cat_each(wanted, &mut |range, bytes| found[range] = bytes);
        found
    }

    /// Passes the index and the bytes of each range to `take`, as soon as they are complete. Ranges are requested in the
    /// order of their paths.
    pub fn cat_each(
        &self,
        wanted: &[ByteRange],
        take: &mut dyn FnMut(usize, Result<Vec<u8>, Failure>),
    ) {
        ranges::cat(&self.0, wanted, take);
    }

    /// Opens the file at `path` for reading.
    pub fn open(&self, path: &[u8]) -> Result<RemoteReader, Failure> {
        RemoteReader::open(&self.0, path)
    }

    /// Creates the file at `path`, which gets its name at the commit. Without `mode`, a replaced file passes on its
    /// permission bits. Fails if `is_new` and the path exists.
    pub fn create(
        &self,
        path: &[u8],
        mode: Option<u32>,
        is_new: bool,
    ) -> Result<RemoteWriter, Failure> {
        RemoteWriter::create(&self.0, path, mode, is_new)
    }

    /// Opens the file at `path` to write at its end; if `size` is given, the file must have that size.
    pub fn append(&self, path: &[u8], size: Option<u64>) -> Result<RemoteWriter, Failure> {
        RemoteWriter::append(&self.0, path, size)
    }

    /// Returns the description and the version of the item at `path`. With `follow`, a symbolic link stands for its
    /// target.
    pub fn stat(&self, path: &[u8], follow: bool) -> Result<(FileInfo, FileVersion), Failure> {
        let stat = |request| Message::Stat {
            request,
            path: path.to_vec(),
            follow,
        };
        let answer = self.0.repeat(|link| ended(&link.first().ask(stat).1))?;
        let version = answer.version()?;
        let info = answer.parts().items.pop();
        info.zip(version).ok_or_else(incomplete)
    }

    /// Returns the items of the directory at `path`, by their names.
    pub fn list(&self, path: &[u8]) -> Result<Vec<FileInfo>, Failure> {
        let list = |request| Message::List {
            request,
            path: path.to_vec(),
        };
        let answer = self.patiently(list)?;
        let items = std::mem::take(&mut answer.parts().items);
        // a program may use the names for files of its own
        let is_name = |item: &FileInfo| is_name(&item.path);
        if !items.iter().all(is_name) {
            let text = "the server sent a list with a name that no file can have";
            return Err(Failure::new(FailureKind::Other, text));
        }
        Ok(items)
    }

    /// Returns the hashes of the file at `path`, and the hashed version.
    pub fn hash(
        &self,
        path: &[u8],
        kinds: &[HashKind],
    ) -> Result<(FileHashes, FileVersion), Failure> {
        let hash = |request| Message::Hash {
            request,
            path: path.to_vec(),
            kinds: kinds.to_vec(),
        };
        let answer = self.patiently(hash)?;
        let version = answer.version()?;
        let hashes = answer.parts().hashes.take();
        hashes.zip(version).ok_or_else(incomplete)
    }

    /// Renames `from` to `to`. Fails if that exists, unless it is replaced.
    pub fn rename(&self, from: &[u8], to: &[u8], replace: bool) -> Result<(), Failure> {
        self.once(|request| Message::Rename {
            request,
            from: from.to_vec(),
            to: to.to_vec(),
            replace,
        })
    }

    /// Copies the file `from` to `to` on the server. Fails if that exists, unless it is replaced.
    pub fn copy(&self, from: &[u8], to: &[u8], replace: bool) -> Result<(), Failure> {
        self.once(|request| Message::Copy {
            request,
            from: from.to_vec(),
            to: to.to_vec(),
            replace,
        })
    }

    /// Removes the file or link at `path`.
    pub fn remove(&self, path: &[u8]) -> Result<(), Failure> {
        self.once(|request| Message::Remove {
            request,
            path: path.to_vec(),
            is_folder: false,
        })
    }

    /// Removes the empty directory at `path`.
    pub fn remove_folder(&self, path: &[u8]) -> Result<(), Failure> {
        self.once(|request| Message::Remove {
            request,
            path: path.to_vec(),
            is_folder: true,
        })
    }

    /// Creates the directory at `path`.
    pub fn make_folder(&self, path: &[u8]) -> Result<(), Failure> {
        self.once(|request| Message::MakeFolder {
            request,
            path: path.to_vec(),
        })
    }

    /// Creates the symbolic link `path` to `target`.
    pub fn make_link(&self, path: &[u8], target: &[u8]) -> Result<(), Failure> {
        self.once(|request| Message::MakeLink {
            request,
            path: path.to_vec(),
            target: target.to_vec(),
        })
    }

    /// Sets permission bits and the modification time (seconds since 1970 and nanoseconds) of the item at `path`.
    pub fn set(
        &self,
        path: &[u8],
        mode: Option<u32>,
        time: Option<(i64, u32)>,
    ) -> Result<(), Failure> {
        self.once(|request| Message::Set {
            request,
            path: path.to_vec(),
            mode,
            time,
        })
    }

    fn once(&self, make: impl Fn(u64) -> Message) -> Result<(), Failure> {
        let link = self.0.link(Duration::ZERO)?;
        patiently(|| link.first().ask(&make).1.wait().map(drop))
    }

    /// Sends a long request that changes nothing, and waits for its answer.
    fn patiently(&self, make: impl Fn(u64) -> Message) -> Result<Arc<Answer>, Failure> {
        self.0
            .repeat(|link| patiently(|| ended(&link.first().ask(&make).1)))
    }
}

/// Waits for the end of an answer.
fn ended(answer: &Arc<Answer>) -> Result<Arc<Answer>, Failure> {
    answer.wait().map(drop)?;
    Ok(Arc::clone(answer))
}

/// Returns true if a file in a directory can have this name.
fn is_name(octets: &[u8]) -> bool {
    !matches!(octets, b"" | b"." | b"..") && !octets.iter().any(|octet| matches!(octet, b'/' | 0))
}

fn incomplete() -> Failure {
    Failure::new(FailureKind::Other, "the server sent an incomplete answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_their_directory_are_refused() {
        for (name, is_good) in [
            (&b"name"[..], true),
            (b"..name", true),
            (b"...", true),
            (b"n\xffme", true),
            (b"", false),
            (b".", false),
            (b"..", false),
            (b"/etc/passwd", false),
            (b"../name", false),
            (b"a/b", false),
            (b"a\0b", false),
        ] {
            assert_eq!(is_name(name), is_good, "{}", name.escape_ascii());
        }
    }
}
