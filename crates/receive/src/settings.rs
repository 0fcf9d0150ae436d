//! Settings of the receiving side.

use std::path::PathBuf;

use lighthaul_copy::budget::Budget;
use lighthaul_files::list::PathList;
use lighthaul_files::options::Options;
use lighthaul_files::permit::Permit;
use lighthaul_files::temp_names::boot_number;
use lighthaul_files::writer_lock::WriterLock;
use lighthaul_fs::disk::Root;

use super::journal::Protection;

/// Settings of the receiving side.
#[derive(Debug, Default)]
pub struct Settings {
    /// True if datagrams are not encrypted.
    pub plain: bool,
    /// List of paths to copy, if not all are wanted.
    pub names: Option<PathList>,
    /// Paths of the sources, if this side has requested them and the peer may list no others.
    pub requested: Option<Vec<Vec<u8>>>,
    /// Options of the copy.
    pub options: Options,
    /// Metadata that the peer may set.
    pub permit: Permit,
    /// Limits of memory and open files.
    pub budget: Budget,
}

impl Settings {
    /// Returns the protection of bytes on the network.
    pub(crate) const fn protection(&self) -> Protection {
        Protection {
            digest: self.options.digest,
            sealed: !self.plain,
        }
    }

    /// Returns the number of the boot that written bytes do not survive, or zero if bytes are synced.
    pub(super) fn boot(&self) -> u64 {
        if self.options.sync { 0 } else { boot_number() }
    }
}

/// Root of the target, its path for messages, and the lock on the root.
pub(super) type OpenTarget = (Root, PathBuf, Option<WriterLock>);
