//! Counts of a dry run.

use lighthaul_files::options::{Action, Planned};

/// Actions of a dry run, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bytes that would be sent.
    pub bytes: u64,
    /// Entries that would be created or replaced.
    pub entries: u64,
    /// Entries with changes of metadata only.
    pub changes: u64,
    /// Entries that would be deleted.
    pub deletions: u64,
}

impl Plan {
    /// Counts an action.
    pub const fn add(&mut self, planned: &Planned) {
        match planned.action {
            Action::Create | Action::Replace => {
                self.bytes = self.bytes.saturating_add(planned.bytes);
                self.entries += 1;
            }
            Action::Link => self.entries += 1,
            Action::Change => self.changes += 1,
            Action::Delete => self.deletions += 1,
            Action::Keep | Action::Exclude | Action::Skip => {}
        }
    }
}
