//! Listed file of the sender.

use std::io;
use std::path::PathBuf;

use lighthaul_files::source_store::SourceFile;

/// File that the receiver may request.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) place: PathBuf,
    /// Size of the file at the time of listing.
    pub(crate) size: u64,
    /// Version of the file at the time of listing; see [`lighthaul_fs::version::Version::mark`].
    pub(crate) version: u64,
}

impl Item {
    /// Returns true if `file` is still the version that was listed.
    pub(crate) fn is_unchanged(&self, file: &SourceFile) -> io::Result<bool> {
        Ok(file.version()?.mark() == self.version)
    }
}
