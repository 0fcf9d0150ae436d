//! Messages about metadata that cannot be preserved, one for each kind instead of one for each
//! file.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use lighthaul_fs::metadata::NotKept;

/// Messages that were shown.
#[derive(Debug, Default)]
pub struct Notes(Mutex<BTreeSet<NotKept>>);

impl Notes {
    /// Returns a message for each item of `not_kept` that was not reported before.
    pub fn unreported(&self, not_kept: Vec<NotKept>) -> Vec<String> {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = not_kept.into_iter().filter(|note| reported.insert(*note));
        new.map(|note| note.to_string()).collect()
    }
}
