//! Failures of a copy and their reasons. A peer may send any number of either, so both are bounded.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lighthaul_session::error::Error;

use crate::error::Fault;
use crate::watch::Failed;

/// Maximum number of octets of reasons that a copy holds, enough for about a hundred thousand files.
const REASONS_MAX: usize = 8 << 20;
/// Maximum number of octets of paths of failed entries. A hundred thousand usual paths take a tenth of that.
const PATHS_MAX: usize = 128 << 20;
/// Maximum number of failures after which a transfer continues.
const FAILURES_MAX: usize = 1 << 17;
/// Text that replaces an omitted reason.
const LEFT_OUT: &str = "reason omitted after too many others";

/// Octets of the reasons that all threads of a copy hold.
#[derive(Debug, Default)]
pub struct Reasons(AtomicUsize);

impl Reasons {
    /// Replaces the reason `why` if the reasons exceed their limit.
    pub fn limit(&self, why: &mut String) {
        let before = self.0.fetch_add(why.len(), Relaxed);
        if before.saturating_add(why.len()) > REASONS_MAX {
            // a replaced reason takes no space
            self.0.fetch_sub(why.len(), Relaxed);
            LEFT_OUT.clone_into(why);
        }
    }
}

/// Failed entries.
#[derive(Debug, Default)]
pub struct Failures {
    list: Vec<Failed>,
    reasons: Reasons,
    /// Octets of all paths.
    paths: usize,
}

impl Failures {
    /// Adds a failure.
    pub fn push(&mut self, mut failed: Failed) {
        self.reasons.limit(&mut failed.why);
        self.paths = self.paths.saturating_add(failed.path.len());
        self.list.push(failed);
    }

    /// Fails if there are too many failures to continue.
    pub fn check(&self) -> Result<(), Error> {
        let what = if self.list.len() > FAILURES_MAX {
            format!("more than {FAILURES_MAX} entries failed")
        } else if self.paths > PATHS_MAX {
            format!("the paths of failed entries exceed {} MiB", PATHS_MAX >> 20)
        } else {
            return Ok(());
        };
        let last = self.list.last();
        Err(Fault::TooManyFailures {
            what,
            last: last.map_or_else(String::new, |last| last.why.clone()),
        }
        .into())
    }

    /// Takes all failures.
    pub fn finish(&mut self) -> Vec<Failed> {
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lighthaul_session::error::Code;

    fn failed(path: usize, why: usize) -> Failed {
        Failed {
            path: vec![b'p'; path],
            code: Code::Io as u8,
            why: "w".repeat(why),
        }
    }

    #[test]
    fn reasons_beyond_the_limit_are_omitted_while_short_reasons_fit() {
        let mut failures = Failures::default();
        let long = REASONS_MAX / 4;
        for _ in 0..6 {
            failures.push(failed(1, long - 1));
        }
        failures.push(failed(1, 4));
        assert_eq!(failures.check(), Ok(()));
        let reasons: Vec<_> = failures.finish().into_iter().map(|one| one.why).collect();
        assert!(reasons[..4].iter().all(|why| why.len() == long - 1));
        assert_eq!(reasons[4..], [LEFT_OUT, LEFT_OUT, "wwww"]);
    }

    #[test]
    fn too_many_failures_end_the_copy() {
        for (path, count) in [(1, FAILURES_MAX), (1 << 20, PATHS_MAX >> 20)] {
            let mut failures = Failures::default();
            (0..count).for_each(|_| failures.push(failed(path, 1)));
            assert_eq!(failures.check(), Ok(()));
            failures.push(failed(path, 3));
            let error = failures.check().unwrap_err();
            assert_eq!(error.code(), Code::Partial);
            assert!(error.text().ends_with("the last error: www"), "{error}");
        }
    }
}
