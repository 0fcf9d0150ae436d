//! What could not be kept, told once for each kind and not for each file.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use lighthaul_io::fs::metadata::NotKept;

/// What has been told.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<BTreeSet<NotKept>>);

impl Notes {
    /// Sentences about what is new of `not_kept`.
    pub(crate) fn news(&self, not_kept: Vec<NotKept>) -> Vec<String> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = not_kept.into_iter().filter(|note| told.insert(*note));
        new.map(|note| note.to_string()).collect()
    }
}
