//! Ranges of staged files, from the stage logs of a striped copy.

use std::collections::BTreeMap;

use lighthaul_files::digest::Digest;
use lighthaul_files::object::{Span, within};
use lighthaul_files::stage_log::{RangeState, StagedRange, without_device};
use lighthaul_fs::version::{Look, Version};

use super::journal::{Protection, Record, longest, merged, missing};

/// Ranges of staged files, from the stage logs in the target directory.
#[derive(Debug, Default)]
pub(super) struct StagedFiles {
    /// Number of logs.
    logs: usize,
    /// Ranges by the hash of the path.
    ranges: BTreeMap<[u8; 16], Vec<LoggedRange>>,
}

/// Range of one log.
#[derive(Clone, Debug)]
pub(super) struct LoggedRange {
    /// Number of the log.
    log: usize,
    /// True if the log is of this run.
    is_ours: bool,
    /// Range, without its path.
    range: StagedRange,
}

impl StagedFiles {
    /// Adds the ranges of a log.
    pub(super) fn add(&mut self, is_ours: bool, ranges: Vec<StagedRange>) {
        self.logs += 1;
        for mut range in ranges {
            let key = key(&std::mem::take(&mut range.path));
            self.ranges.entry(key).or_default().push(LoggedRange {
                log: self.logs,
                is_ours,
                range,
            });
        }
    }

    /// Returns the ranges of version `look` of the file at `path`.
    pub(super) fn of(&self, path: &[u8], look: Look) -> Vec<LoggedRange> {
        let all = self.ranges.get(&key(path)).into_iter().flatten();
        all.filter(|one| one.range.look == look).cloned().collect()
    }

    /// Takes the ranges of version `look` of the file at `path`.
    pub(super) fn take(&mut self, path: &[u8], look: Look) -> Vec<LoggedRange> {
        let Some(all) = self.ranges.get_mut(&key(path)) else {
            return Vec::new();
        };
        all.extract_if(.., |one| one.range.look == look).collect()
    }

    /// Returns true if all ranges were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.values().all(Vec::is_empty)
    }

    /// Returns true if `range` was not taken.
    pub(super) fn has(&self, range: &StagedRange) -> bool {
        let all = self.ranges.get(&key(&range.path));
        all.is_some_and(|all| all.iter().any(|left| left.range.look == range.look))
    }
}

/// Ranges of one staged file that can be used.
#[derive(Debug, Default)]
pub(super) struct Usable {
    /// Ranges that this run has verified, each with its digest.
    pub(super) proven: Vec<(Span, Digest)>,
    /// Ranges that must be compared with the source.
    pub(super) hints: Vec<Record>,
}

impl Usable {
    /// Returns the proven ranges, in order.
    pub(super) fn spans(&self) -> Vec<Span> {
        merged(self.proven.iter().map(|(span, _)| *span).collect())
    }

    /// Keeps the longest of the proven ranges, so that a request for all others is not too long.
    pub(super) fn keep_longest(&mut self) {
        let kept = longest(self.spans());
        self.proven
            .retain(|(span, _)| within(&[*span], &kept) == [*span]);
    }
}

impl LoggedRange {
    /// Returns false if the range was written to another file than the staged file `there`.
    fn is_in(&self, there: Version) -> bool {
        match self.range.state {
            RangeState::Begun => true,
            RangeState::Written { version, .. } => version.inode == without_device(there).inode,
        }
    }
}

/// Separates the ranges of this run from those that must be compared, for a part that stages. `mark` is the mark of the
/// source, `there` the version of the staged file.
pub(super) fn staged_by_run(staged: &[LoggedRange], mark: Option<u64>, there: Version) -> Usable {
    separate(staged, |one| {
        one.is_ours && one.range.mark == mark && one.is_in(there)
    })
}

/// Separates the ranges that need no comparison from those that must be compared, for the part that publishes (see
/// `stage_log`). `mark` is the mark of the source, `there` the version of the staged file.
pub(super) fn proven_by_run(staged: &[LoggedRange], mark: Option<u64>, there: Version) -> Usable {
    let is_alone = |one: &LoggedRange| one.is_ours && one.range.mark == mark && one.is_in(there);
    let versions = staged.iter().filter_map(|one| match one.range.state {
        RangeState::Begun => None,
        RangeState::Written { version, .. } => Some(version),
    });
    let last = versions.max_by_key(|version| version.changed);
    let is_known = last == Some(without_device(there));
    let is_sound = mark.is_some() && is_known && staged.iter().all(is_alone);
    let doubtful = unfinished(staged);
    let is_finished = |span: Span| within(&[span], &doubtful).is_empty();
    separate(staged, |one| is_sound && is_finished(one.range.span))
}

/// Returns what any part began and did not complete afterwards. `staged` is in the order in which each part wrote it.
fn unfinished(staged: &[LoggedRange]) -> Vec<Span> {
    let mut logs: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
    for one in staged {
        let begun = logs.entry(one.log).or_default();
        match one.range.state {
            RangeState::Begun => begun.push(one.range.span),
            RangeState::Written { .. } => {
                let others = missing(&[one.range.span], one.range.look.size);
                *begun = within(&merged(std::mem::take(begun)), &others);
            }
        }
    }
    merged(logs.into_values().flatten().collect())
}

fn separate(staged: &[LoggedRange], is_proven: impl Fn(&LoggedRange) -> bool) -> Usable {
    let mut usable = Usable::default();
    for one in staged {
        let span = one.range.span;
        match one.range.state {
            RangeState::Begun => {}
            RangeState::Written { digest, .. } if is_proven(one) => {
                usable.proven.push((span, digest));
            }
            RangeState::Written { digest, sealed, .. } => {
                let digest = digest.kind();
                let protection = Protection { digest, sealed };
                usable.hints.push(Record { span, protection });
            }
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

#[cfg(test)]
mod tests {
    use lighthaul_base::Rng;

    use super::*;

    const SIZE: u64 = 12;
    const LOOK: Look = Look {
        size: SIZE,
        seconds: 1,
        nanos: 2,
    };
    const MARK: Option<u64> = Some(3);

    /// Part of a copy that writes a range, and records it if all of its bytes are right.
    struct Writer {
        log: usize,
        span: Span,
        /// Bytes that it still writes, each with true if it is right.
        left: Vec<(u64, bool)>,
        is_right: bool,
        has_begun: bool,
    }

    impl Writer {
        fn new(rng: &mut Rng, log: usize) -> Self {
            let from = rng.below(SIZE);
            let span = (from, from + 1 + rng.below(SIZE - from));
            let is_right = rng.below(4) > 0;
            let bytes = (span.0..span.1).map(|at| (at, is_right || rng.below(2) == 0));
            Self {
                log,
                span,
                left: bytes.collect(),
                is_right,
                has_begun: false,
            }
        }

        fn record(&self, state: RangeState) -> LoggedRange {
            LoggedRange {
                log: self.log,
                is_ours: true,
                range: StagedRange {
                    path: Vec::new(),
                    look: LOOK,
                    mark: MARK,
                    span: self.span,
                    state,
                },
            }
        }
    }

    const fn version(changed: i64) -> Version {
        Version {
            inode: (0, 9),
            changed,
            look: LOOK,
        }
    }

    /// Writers with a log each take turns at random. Those with wrong bytes record nothing after their beginning.
    #[test]
    fn proven_ranges_have_the_bytes_of_the_source() {
        let mut proven = 0;
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let count = 1 + rng.below(4) as usize;
            let mut writers: Vec<_> = (0..count).map(|log| Writer::new(&mut rng, log)).collect();
            let (mut file, mut staged, mut changed) = ([false; SIZE as usize], Vec::new(), 0);
            while !writers.is_empty() {
                let nth = rng.below(writers.len() as u64) as usize;
                let writer = &mut writers[nth];
                if !writer.has_begun {
                    writer.has_begun = true;
                    staged.push(writer.record(RangeState::Begun));
                } else if let Some((at, is_right)) = writer.left.pop() {
                    file[at as usize] = is_right;
                    changed += 1;
                } else {
                    let writer = writers.remove(nth);
                    let state = RangeState::Written {
                        version: version(changed),
                        digest: Digest::None,
                        sealed: false,
                    };
                    staged.extend(writer.is_right.then(|| writer.record(state)));
                }
            }
            let usable = proven_by_run(&staged, MARK, version(changed));
            for (from, till) in usable.spans() {
                let bytes = &file[from as usize..till as usize];
                assert!(bytes.iter().all(|is_right| *is_right), "seed {seed}");
                proven += till - from;
            }
        }
        assert!(proven > 50_000, "{proven}");
    }

    #[test]
    fn change_after_the_last_record_makes_all_ranges_doubtful() {
        let writer = Writer::new(&mut Rng::new(1), 0);
        let state = RangeState::Written {
            version: version(5),
            digest: Digest::None,
            sealed: true,
        };
        let staged = [writer.record(RangeState::Begun), writer.record(state)];
        let proven = |mark, there| proven_by_run(&staged, mark, there).spans();
        assert_eq!(proven(MARK, version(5)), [writer.span]);
        let replaced = Version {
            inode: (1, 10),
            ..version(5)
        };
        for (mark, there) in [(MARK, version(6)), (MARK, replaced), (Some(4), version(5))] {
            assert_eq!(proven(mark, there), [], "{mark:?} {there:?}");
            assert_eq!(proven_by_run(&staged, mark, there).hints.len(), 1);
        }
    }
}
