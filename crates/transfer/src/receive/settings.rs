//! How to receive, and where to.

use std::path::PathBuf;

use lighthaul_files::list::Names;
use lighthaul_files::options::Options;
use lighthaul_files::temp_names::boot;
use lighthaul_io::fs::disk::Root;

use super::claim::Claim;
use super::journal::Passage;
use super::permit::Permit;
use crate::budget::Budget;

/// How to receive.
#[derive(Debug, Default)]
pub struct Settings {
    /// Datagrams are not encrypted.
    pub plain: bool,
    /// Which paths the sender is to look for, if not all.
    pub names: Option<Names>,
    /// How to copy.
    pub options: Options,
    /// What the peer may set.
    pub permit: Permit,
    /// Limits of its memory and open files.
    pub budget: Budget,
}

impl Settings {
    /// How bytes travel, and by which digest both sides compare them.
    pub(crate) const fn passage(&self) -> Passage {
        Passage {
            digest: self.options.digest,
            sealed: !self.plain,
        }
    }

    /// Which start of the host written bytes do not outlive, zero if they are brought to disk.
    pub(super) fn boot(&self) -> u64 {
        if self.options.sync { 0 } else { boot() }
    }
}

/// Where files go, what people know that as, and our mark on it.
pub(super) type Landed = (Root, PathBuf, Option<Claim>);
