//! Names of the entries of a transfer, which decide their paths at the target.

use serde::{Deserialize, Serialize};

/// Sources of a transfer, as shown by the names of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Naming {
    /// The entries are the contents of one directory; names do not include the directory.
    Contents,
    /// The only source is a file or link, whose name is the name of the first entry.
    File,
    /// The only source is a directory, and the first name of all entries.
    Folder,
    /// There may be several sources; each entry begins with the name of its source.
    Several,
}

impl Naming {
    /// Returns true if entries begin with the names of their sources.
    pub const fn is_named(self) -> bool {
        !matches!(self, Self::Contents)
    }
}
