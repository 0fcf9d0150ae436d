//! Decision about one entry, by the options of the copy and what both sides know of it.
//!
//! Stores keep no modification times of their own. An upload notes that of its file in the metadata `mtime`. Without it,
//! an object counts as equal if it has the size of the file and is not older.

use lighthaul_buckets::attributes::{Condition, Stamp};
use lighthaul_files::content_sum::ContentSum;
use lighthaul_files::options::{Action, Options};

use crate::stores::content_sums;

/// Decision about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) action: Action,
    pub(crate) why: &'static str,
}

/// Knowledge of one side about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) size: u64,
    /// Modification time of the file, if it is known.
    pub(crate) time: Option<Stamp>,
    /// Time at which a store took the object.
    pub(crate) stored: Option<Stamp>,
    /// Checksums that are known, the best first.
    pub(crate) sums: Vec<ContentSum>,
}

impl Decision {
    pub(crate) const fn new(action: Action, why: &'static str) -> Self {
        Self { action, why }
    }
}

/// Entry of the target, as far as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum There {
    /// No entry.
    Nothing,
    /// A file or object of this size.
    File(u64),
    /// Another entry, such as a symbolic link.
    Other,
}

impl There {
    /// Returns the entry of an object, if there is one.
    pub(crate) fn object(existing: Option<&Existing>) -> Self {
        existing.map_or(Self::Nothing, |existing| Self::File(existing.size))
    }
}

/// Object of the target that a copy may replace. A copy may know millions of them.
#[derive(Clone, Debug)]
pub(crate) struct Existing {
    size: u64,
    /// Version of the object, if the copy depends on it.
    etag: Option<Box<str>>,
}

impl Existing {
    /// Returns the object of this size and version.
    pub(crate) fn new(options: &Options, size: u64, etag: Option<String>) -> Self {
        let etag = etag.filter(|_| options.update).map(String::into_boxed_str);
        Self { size, etag }
    }
}

/// Returns the condition under which an object replaces the existing one.
pub(crate) fn condition(options: &Options, existing: Option<&Existing>) -> Condition {
    match existing {
        None if options.skip.existing || options.update => Condition::Absent,
        Some(Existing {
            etag: Some(etag), ..
        }) if options.update => Condition::Unchanged(etag.to_string()),
        _ => Condition::Always,
    }
}

/// Returns the decision about an object whose condition no longer holds.
pub(crate) const fn overtaken(options: &Options) -> Decision {
    if options.skip.existing {
        Decision::new(Action::Skip, EXISTS)
    } else {
        Decision::new(Action::Keep, NEWER)
    }
}

/// Decides from the lists alone. Returns none if they are not sufficient.
pub(crate) fn first(options: &Options, size: u64, there: There) -> Option<Decision> {
    let skip = &options.skip;
    let skipped = if skip.missing && there == There::Nothing {
        Some("the target does not have it (--existing)")
    } else if skip.existing && there != There::Nothing {
        Some(EXISTS)
    } else if skip.size_max.is_some_and(|max| size > max) {
        Some("it is larger than --max-size")
    } else if skip.size_min.is_some_and(|min| size < min) {
        Some("it is smaller than --min-size")
    } else {
        None
    };
    if let Some(why) = skipped {
        return Some(Decision::new(Action::Skip, why));
    }
    match there {
        There::Nothing => Some(Decision::new(Action::Create, "it does not exist")),
        There::Other => Some(Decision::new(Action::Replace, "it is not a file")),
        There::File(there) if there != size && !options.update => {
            Some(Decision::new(Action::Replace, DIFFERENT_SIZE))
        }
        There::File(_) => None,
    }
}

/// Decides by all attributes.
pub(crate) fn second(options: &Options, source: &Version, target: &Version) -> Decision {
    let time = |version: &Version| version.time.or(version.stored);
    if options.update && time(target) > time(source) {
        return Decision::new(Action::Keep, NEWER);
    }
    if source.size != target.size {
        return Decision::new(Action::Replace, DIFFERENT_SIZE);
    }
    if options.checksum {
        return match content_sums::common(&source.sums, &target.sums) {
            Some((one, other)) if one == other => Decision::new(Action::Keep, one.equal()),
            Some((one, _)) => Decision::new(Action::Replace, one.different()),
            None => Decision::new(Action::Replace, NO_SUM),
        };
    }
    let is_same = match (source.time, target.time) {
        (Some(source), Some(target)) => source == target,
        (Some(source), None) => target.stored.is_some_and(|stored| stored >= source),
        // some answers of a store have fractions of seconds, and others have none
        (None, Some(target)) => source
            .stored
            .is_some_and(|stored| stored.seconds == target.seconds),
        (None, None) => target.stored >= source.stored,
    };
    if is_same {
        Decision::new(Action::Keep, "the same size and time")
    } else {
        Decision::new(Action::Replace, DIFFERENT_TIME)
    }
}

const EXISTS: &str = "the target has it (--ignore-existing)";
const NEWER: &str = "the target is newer";
const NO_SUM: &str = "the store has no checksum of it";
pub(crate) const DIFFERENT_SIZE: &str = "different size";
pub(crate) const DIFFERENT_TIME: &str = "different time";

#[cfg(test)]
mod tests {
    use lighthaul_files::skip::Skip;

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "a time that is known")]
    const fn at(seconds: i64) -> Option<Stamp> {
        Some(Stamp::of(seconds, 0))
    }

    fn version(time: Option<Stamp>, stored: Option<Stamp>, crc: Option<u64>) -> Version {
        let sums = crc.into_iter().map(ContentSum::Crc64Nvme).collect();
        Version {
            size: 7,
            time,
            stored,
            sums,
        }
    }

    #[test]
    fn equal_size_and_time_keep_the_target() {
        let options = Options::default();
        let action = |source: &Version, target: &Version| second(&options, source, target).action;
        for (source, target, same) in [
            (
                version(at(5), None, None),
                version(at(5), at(9), None),
                true,
            ),
            (
                version(at(5), None, None),
                version(at(4), at(9), None),
                false,
            ),
            (version(at(5), None, None), version(None, at(9), None), true),
            (
                version(at(5), None, None),
                version(None, at(4), None),
                false,
            ),
            // downloads
            (version(None, at(5), None), version(at(5), None, None), true),
            (
                version(None, at(5), None),
                version(at(6), None, None),
                false,
            ),
            (
                version(at(3), at(5), None),
                version(at(3), None, None),
                true,
            ),
        ] {
            let expected = if same { Action::Keep } else { Action::Replace };
            assert_eq!(action(&source, &target), expected, "{source:?} {target:?}");
        }
    }

    #[test]
    fn update_keeps_newer_targets_and_checksum_compares_content() {
        let update = Options {
            update: true,
            ..Options::default()
        };
        assert_eq!(first(&update, 7, There::File(8)), None);
        let newer = Version {
            size: 8,
            ..version(at(6), None, None)
        };
        assert_eq!(
            second(&update, &version(at(5), None, None), &newer).action,
            Action::Keep
        );
        assert_eq!(
            second(&update, &version(at(7), None, None), &newer).action,
            Action::Replace
        );
        let checksum = Options {
            checksum: true,
            ..Options::default()
        };
        let sums = |one, other| {
            second(
                &checksum,
                &version(at(5), None, one),
                &version(at(5), None, other),
            )
            .action
        };
        assert_eq!(sums(Some(1), Some(1)), Action::Keep);
        assert_eq!(sums(Some(1), Some(2)), Action::Replace);
        assert_eq!(sums(Some(1), None), Action::Replace);
    }

    #[test]
    fn skipped_entries_stay_as_they_are() {
        let skip = |skip, size, there| {
            let options = Options {
                skip,
                ..Options::default()
            };
            first(&options, size, there).map(|decision| decision.action)
        };
        let none = Skip::default();
        let nothing = There::Nothing;
        assert_eq!(skip(none.clone(), 7, nothing), Some(Action::Create));
        assert_eq!(skip(none.clone(), 7, There::File(8)), Some(Action::Replace));
        assert_eq!(skip(none.clone(), 7, There::Other), Some(Action::Replace));
        assert_eq!(skip(none, 7, There::File(7)), None);
        let existing = Skip {
            existing: true,
            ..Skip::default()
        };
        assert_eq!(
            skip(existing.clone(), 7, There::File(8)),
            Some(Action::Skip)
        );
        assert_eq!(skip(existing, 7, There::Other), Some(Action::Skip));
        let large = Skip {
            size_min: Some(8),
            ..Skip::default()
        };
        assert_eq!(skip(large, 7, nothing), Some(Action::Skip));
    }
}
