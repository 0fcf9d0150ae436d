//! Names of the entries of a transfer, which decide where they land at the target.

use serde::{Deserialize, Serialize};

/// Sources of a transfer, as the names of its entries show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Naming {
    /// The entries are the contents of one directory, whose name does not count.
    Contents,
    /// The only source is a file or link, and the first name of its entry.
    File,
    /// The only source is a directory, and the first name of all entries.
    Folder,
    /// There may be several sources, each with a first name of its own.
    Several,
}

impl Naming {
    /// Returns true if entries begin with the names of their sources.
    pub const fn is_named(self) -> bool {
        !matches!(self, Self::Contents)
    }
}
