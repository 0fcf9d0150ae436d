//! Ranges of staged files, from the stage logs of a striped copy.

use std::collections::BTreeMap;

use lighthaul_fs::version::Look;

use super::journal::Record;
use super::stage_log::StagedRange;

/// Ranges of staged files, from the stage logs in the target directory.
#[derive(Debug, Default)]
pub(super) struct StagedFiles {
    /// Ranges by the hash of the path, each with true if it is of this run.
    ranges: BTreeMap<[u8; 16], Vec<(bool, StagedRange)>>,
}

impl StagedFiles {
    /// Adds the ranges of a log.
    pub(super) fn add(&mut self, is_ours: bool, ranges: Vec<StagedRange>) {
        for mut range in ranges {
            let key = key(&std::mem::take(&mut range.path));
            self.ranges.entry(key).or_default().push((is_ours, range));
        }
    }

    /// Returns the ranges of version `look` of the file at `path`.
    pub(super) fn of(&self, path: &[u8], look: Look) -> Vec<(bool, StagedRange)> {
        let all = self.ranges.get(&key(path)).into_iter().flatten();
        all.filter(|(_, range)| range.look == look)
            .cloned()
            .collect()
    }

    /// Takes the ranges of version `look` of the file at `path`.
    pub(super) fn take(&mut self, path: &[u8], look: Look) -> Vec<(bool, StagedRange)> {
        let Some(all) = self.ranges.get_mut(&key(path)) else {
            return Vec::new();
        };
        all.extract_if(.., |(_, range)| range.look == look)
            .collect()
    }

    /// Returns true if all ranges were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.values().all(Vec::is_empty)
    }

    /// Returns true if `range` was not taken.
    pub(super) fn has(&self, range: &StagedRange) -> bool {
        let all = self.ranges.get(&key(&range.path));
        all.is_some_and(|all| all.iter().any(|(_, left)| left.look == range.look))
    }
}

/// Ranges of one staged file that can be used.
pub(super) struct Usable {
    /// Ranges that this run has verified.
    pub(super) proven: Vec<StagedRange>,
    /// Ranges that must be compared with the source.
    pub(super) hints: Vec<Record>,
}

/// Separates the ranges of this run from those that must be compared.
pub(super) fn usable(staged: Vec<(bool, StagedRange)>) -> Usable {
    let mut usable = Usable {
        proven: Vec::new(),
        hints: Vec::new(),
    };
    for (is_proven, range) in staged {
        if is_proven {
            usable.proven.push(range);
        } else {
            usable.hints.push(Record {
                span: range.span,
                protection: range.protection,
            });
        }
    }
    usable
}

fn key(path: &[u8]) -> [u8; 16] {
    let hash = blake3::hash(path);
    let mut key = [0; 16];
    key.copy_from_slice(&hash.as_bytes()[..16]);
    key
}
