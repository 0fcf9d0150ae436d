//! Contents of sources: files of this host, or objects that a daemon reads from a store.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use lighthaul_fs::disk::InputFile;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::version::Version;
use lighthaul_session::error::{Error, FileAction};

/// Store whose objects are sources of a copy.
pub trait SourceStore: Debug + Send + Sync {
    /// Opens the object at `place`, as in the list of the store.
    fn open(&self, place: &Path) -> Result<Box<dyn StoredFile>, Error>;
}

/// Object that is read. All of its bytes are of one version.
pub trait StoredFile: Debug + Send {
    /// Fills `buffer` from `offset`. Bytes up to `till` follow in order, and may be read ahead; none follow if these were
    /// read before. Returns the number of bytes read, which is less than the buffer's length only at the end of the
    /// object. Fails if the object has changed.
    fn read_in(&self, buffer: &mut [u8], offset: u64, till: Option<u64>) -> Result<usize, Error>;

    /// Returns the version of the object.
    fn version(&self) -> Version;
}

/// Source that is open.
#[derive(Debug)]
pub enum SourceFile {
    /// File of this host.
    Here(InputFile),
    /// Object of a store.
    Stored(Box<dyn StoredFile>),
}

/// Places of sources.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Part of the file system with the sources.
    pub access: Arc<FileAccess>,
    /// Store that has them, if it is not the file system.
    pub store: Option<Arc<dyn SourceStore>>,
}

impl Sources {
    /// Opens the source at `place`.
    pub fn file(&self, place: &Path) -> io::Result<SourceFile> {
        match &self.store {
            Some(store) => store
                .open(place)
                .map(SourceFile::Stored)
                .map_err(io::Error::other),
            None => self.access.file(place).map(SourceFile::Here),
        }
    }
}

impl From<Arc<FileAccess>> for Sources {
    fn from(access: Arc<FileAccess>) -> Self {
        Self {
            access,
            store: None,
        }
    }
}

impl SourceFile {
    /// Fills `buffer` from `offset`. Returns the number of bytes read, which is less than the buffer's length only at the
    /// end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_in(buffer, offset, None)
    }

    /// Fills `buffer` from `offset`, as [`Self::read_at`] does. Bytes up to `till` follow in order, and may be read ahead;
    /// none follow if these were read before.
    pub fn read_in(&self, buffer: &mut [u8], offset: u64, till: Option<u64>) -> io::Result<usize> {
        match self {
            Self::Here(file) => file.read_at(buffer, offset),
            Self::Stored(file) => file.read_in(buffer, offset, till).map_err(io::Error::other),
        }
    }

    /// Returns the current version.
    pub fn version(&self) -> io::Result<Version> {
        match self {
            Self::Here(file) => file.version(),
            Self::Stored(file) => Ok(file.version()),
        }
    }
}

/// Returns the error of a source at `place` that cannot be read. A store has its own.
pub fn unreadable(place: &Path, error: &io::Error) -> Error {
    let of_store = error.get_ref().and_then(|inner| inner.downcast_ref());
    of_store
        .cloned()
        .unwrap_or_else(|| Error::file(FileAction::Read, place, error))
}

#[cfg(test)]
mod tests {
    use lighthaul_session::error::Code;

    use super::*;
    use crate::error::Fault;

    #[test]
    fn error_of_a_store_keeps_its_words_and_its_code() {
        let of_store: Error = Fault::Vanished("/store/a".into()).into();
        let place = Path::new("/other");
        let read = unreadable(place, &io::Error::other(of_store.clone()));
        assert_eq!(read, of_store);
        let read = unreadable(place, &io::ErrorKind::PermissionDenied.into());
        assert_eq!(read.code(), Code::Permission);
        assert!(read.text().contains("/other"), "{read}");
    }
}
