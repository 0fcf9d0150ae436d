//! Failures of a copy, and the reasons for them. A peer may name any number of either, so both are bounded.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lighthaul_session::error::{Code, Error};

use crate::watch::Failed;

/// Octets of reasons that a copy holds: those of a hundred thousand files, as they usually are.
const REASONS_MAX: usize = 8 << 20;
/// Octets of paths of entries that failed, which must be named; a hundred thousand take a tenth of that.
const PATHS_MAX: usize = 128 << 20;
/// The most failures that a transfer goes on after.
const FAILURES_MAX: usize = 1 << 17;
/// What stands for a reason that is left out.
const LEFT_OUT: &str = "the reason is left out, after too many others";

/// Octets of reasons that were taken, by any thread of a copy.
#[derive(Debug, Default)]
pub(crate) struct Reasons(AtomicUsize);

impl Reasons {
    /// Leaves the reason `why` out if those before it were too many.
    pub(crate) fn take(&self, why: &mut String) {
        let before = self.0.fetch_add(why.len(), Relaxed);
        if before.saturating_add(why.len()) > REASONS_MAX {
            // which need not be counted, and cannot be counted without end
            self.0.fetch_sub(why.len(), Relaxed);
            LEFT_OUT.clone_into(why);
        }
    }
}

/// Entries that are not in place.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    list: Vec<Failed>,
    reasons: Reasons,
    /// Octets of all paths.
    paths: usize,
}

impl Failures {
    /// Takes one more.
    pub(crate) fn push(&mut self, mut failed: Failed) {
        self.reasons.take(&mut failed.why);
        self.paths = self.paths.saturating_add(failed.path.len());
        self.list.push(failed);
    }

    /// Fails once there are more than anybody will look at.
    pub(crate) fn bear(&self) -> Result<(), Error> {
        let what = if self.list.len() > FAILURES_MAX {
            format!("more than {FAILURES_MAX} entries failed")
        } else if self.paths > PATHS_MAX {
            format!(
                "entries failed whose paths are longer than {} MiB",
                PATHS_MAX >> 20
            )
        } else {
            return Ok(());
        };
        let last = self.list.last().map_or("", |last| &last.why);
        Err(Error::new(
            Code::Partial,
            format!("{what}; the last: {last}"),
        ))
    }

    /// All of them.
    pub(crate) fn finish(&mut self) -> Vec<Failed> {
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(path: usize, why: usize) -> Failed {
        Failed {
            path: vec![b'p'; path],
            code: Code::Io as u8,
            why: "w".repeat(why),
        }
    }

    #[test]
    fn reasons_beyond_the_bound_are_left_out_and_short_ones_still_fit() {
        let mut failures = Failures::default();
        let long = REASONS_MAX / 4;
        for _ in 0..6 {
            failures.push(failed(1, long - 1));
        }
        failures.push(failed(1, 4));
        assert_eq!(failures.bear(), Ok(()));
        let reasons: Vec<_> = failures.finish().into_iter().map(|one| one.why).collect();
        assert!(reasons[..4].iter().all(|why| why.len() == long - 1));
        assert_eq!(reasons[4..], [LEFT_OUT, LEFT_OUT, "wwww"]);
    }

    #[test]
    fn failures_without_end_end_the_copy() {
        for (path, count) in [(1, FAILURES_MAX), (1 << 20, PATHS_MAX >> 20)] {
            let mut failures = Failures::default();
            (0..count).for_each(|_| failures.push(failed(path, 1)));
            assert_eq!(failures.bear(), Ok(()));
            failures.push(failed(path, 3));
            let error = failures.bear().unwrap_err();
            assert_eq!(error.code, Code::Partial);
            assert!(error.text.ends_with("the last: www"), "{error}");
        }
    }
}
