//! Limit of deletions (`--max-delete`).

use std::cell::Cell;

/// Number of deletions.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    pub(super) done: Cell<u64>,
    /// Items that stay because the limit was reached.
    pub(super) spared: Cell<u64>,
    /// True while items are deleted to make room for entries; such deletions do not count.
    pub(super) is_exempt: Cell<bool>,
}

impl Deletions {
    /// Counts a deletion.
    pub(super) fn count(&self) {
        self.done
            .set(self.done.get() + u64::from(!self.is_exempt.get()));
    }

    /// Returns true if no more items may be deleted, and counts the item that stays.
    pub(super) fn spares(&self, max: Option<u64>) -> bool {
        let spares = !self.is_exempt.get() && max.is_some_and(|max| self.done.get() >= max);
        if spares {
            self.spared.set(self.spared.get() + 1);
        }
        spares
    }
}
