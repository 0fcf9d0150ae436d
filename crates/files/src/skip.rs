//! Entries that a copy leaves unchanged at the target because the user asks for it.

use serde::{Deserialize, Serialize};

use crate::manifest::{Entry, EntryKind};

/// Conditions under which a copy leaves an entry of the target unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// Skips entries that the target does not have.
    pub missing: bool,
    /// Skips entries that the target has, but not the contents of directories.
    pub existing: bool,
    /// Smallest size of a file that is copied, in bytes.
    pub size_min: Option<u64>,
    /// Largest size of a file that is copied, in bytes.
    pub size_max: Option<u64>,
}

impl Skip {
    /// Returns the reason why `entry` is skipped, if it is. `there` is none if the target does not
    /// have it, and otherwise true if it is a directory there.
    pub fn reason(&self, entry: &Entry, there: Option<bool>) -> Option<&'static str> {
        let is_folder = entry.kind == EntryKind::Folder;
        if self.missing && there.is_none() {
            return Some("the target does not have it (--existing)");
        }
        if self.existing && there.is_some_and(|folder| !(folder && is_folder)) {
            return Some("the target has it (--ignore-existing)");
        }
        let EntryKind::File(size) = entry.kind else {
            return None;
        };
        if self.size_max.is_some_and(|max| size > max) {
            return Some("it is larger than --max-size");
        }
        if self.size_min.is_some_and(|min| size < min) {
            return Some("it is smaller than --min-size");
        }
        None
    }
}
