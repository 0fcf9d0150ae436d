//! Counts of what a dry run would do.

use lighthaul_base::{Size, counted};
use lighthaul_files::options::{Action, Planned};

/// Actions of a dry run, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanTotals {
    /// Bytes that would be sent.
    pub(super) bytes: u64,
    /// Entries that would be created or replaced.
    pub(super) entries: u64,
    /// Entries of which only the metadata would be changed.
    pub(super) changes: u64,
    /// Entries that would be deleted.
    pub(super) deletions: u64,
}

impl PlanTotals {
    /// Counts an action.
    pub(super) const fn add(&mut self, planned: &Planned) {
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

    /// Returns what would be done, as the end of a sentence.
    pub(super) fn sentence(&self) -> String {
        let sent = match (self.bytes, self.entries) {
            (_, 0) => None,
            (0, count) => Some(format!("create or replace {}", entries(count))),
            (bytes, count) => Some(format!("send {} in {}", Size(bytes), entries(count))),
        };
        let change = |count| format!("change the metadata of {}", entries(count));
        let changed = (self.changes > 0).then(|| change(self.changes));
        let deleted = (self.deletions > 0).then(|| format!("delete {}", self.deletions));
        let parts: Vec<String> = [sent, changed, deleted].into_iter().flatten().collect();
        if parts.is_empty() {
            "would change nothing".to_owned()
        } else {
            format!("would {}", parts.join(", "))
        }
    }
}

/// Returns a number of entries in words.
pub(super) fn entries(count: u64) -> String {
    counted(count, "entry", "entries")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(actions: &[(Action, u64)]) -> PlanTotals {
        let mut totals = PlanTotals::default();
        for (action, bytes) in actions {
            totals.add(&Planned {
                action: *action,
                path: b"a".to_vec(),
                bytes: *bytes,
                kept: 0,
                why: String::new(),
                item: None,
            });
        }
        totals
    }

    #[test]
    fn dry_run_summary_counts_each_kind_of_change() {
        let many = [
            (Action::Create, 1 << 20),
            (Action::Replace, 1 << 20),
            (Action::Link, 0),
            (Action::Keep, 7),
            (Action::Exclude, 7),
            (Action::Skip, 7),
            (Action::Change, 7),
            (Action::Delete, 0),
            (Action::Delete, 0),
        ];
        for (actions, sentence) in [
            (
                &many[..],
                "would send 2.00 MiB in 3 entries, change the metadata of 1 entry, delete 2",
            ),
            (&many[..1], "would send 1.00 MiB in 1 entry"),
            (&many[2..3], "would create or replace 1 entry"),
            (&many[7..], "would delete 2"),
            (&many[3..6], "would change nothing"),
        ] {
            assert_eq!(totals(actions).sentence(), sentence);
        }
    }
}
