//! A local file that is uploaded. It must not change meanwhile.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use lighthaul_buckets::attributes::Stamp;
use lighthaul_files::content_sum::ContentSum;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_session::error::{Code, Error, FileAction};

use crate::fault::Fault;
use crate::stores::job::blocking;

/// Open file, and its version when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    file: Arc<File>,
    place: Arc<Path>,
    pub(crate) size: u64,
    pub(crate) time: Stamp,
    /// Device, inode, and time of the last change.
    pub(crate) version: (u64, u64, i64, i64),
}

impl SourceFile {
    /// Opens the regular file at `place`.
    pub(crate) async fn open(access: Arc<FileAccess>, place: PathBuf) -> Result<Self, Error> {
        blocking(move || {
            let failed = |error| Error::file(FileAction::Read, &place, &error);
            let file = access.read(&place).map_err(failed)?;
            let meta = file.metadata().map_err(failed)?;
            Ok(Self {
                file: Arc::new(file),
                size: meta.len(),
                time: Stamp::of(meta.mtime(), i32::try_from(meta.mtime_nsec()).unwrap_or(0)),
                version: (meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()),
                place: place.into(),
            })
        })
        .await
    }

    /// Reads bytes from `offset`.
    pub(crate) async fn read(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        let own = self.clone();
        blocking(move || {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let mut bytes = vec![0; len];
            match own.file.read_exact_at(&mut bytes, offset) {
                Ok(()) => Ok(bytes.into()),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    Err(own.changed())
                }
                Err(error) => Err(Error::file(FileAction::Read, &own.place, &error)),
            }
        })
        .await
    }

    /// Returns the checksum of all bytes, of the same kind as `sum`.
    pub(crate) async fn checksum(&self, sum: ContentSum) -> Result<ContentSum, Error> {
        let own = self.clone();
        blocking(move || {
            let read = |at: u64, buffer: &mut [u8]| {
                own.file.read_exact_at(buffer, at).map(|()| buffer.len())
            };
            match sum.same_kind_of(own.size, read) {
                Ok(found) => Ok(found),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    Err(own.changed())
                }
                Err(error) => Err(Error::file(FileAction::Read, &own.place, &error)),
            }
        })
        .await
    }

    /// Fails if the file is not the version that was opened.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let meta = self.file.metadata();
        let meta = meta.map_err(|error| Error::file(FileAction::Read, &self.place, &error))?;
        let version = (meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec());
        if meta.len() != self.size || version != self.version {
            return Err(self.changed());
        }
        Ok(())
    }

    fn changed(&self) -> Error {
        Fault::Failed {
            what: format!("cannot upload {}", self.place.display()),
            why: "it changed while it was read; run the same command again".to_owned(),
            code: Code::Changed,
        }
        .into()
    }
}
