//! Limit on the lines of the log that programs and peers can cause.

use std::time::Duration;

use lighthaul_base::Instant;
use tracing::{info, warn};

/// Limit of logged events: the first of each interval are logged singly, further events are only counted.
#[derive(Debug)]
pub(crate) struct LineLimit {
    /// Plural noun for what is logged.
    noun: &'static str,
    /// End of the interval.
    till: Option<Instant>,
    lines: u32,
    skipped: u64,
}

impl Default for LineLimit {
    fn default() -> Self {
        Self::of("refusals")
    }
}

impl LineLimit {
    /// Returns a limit of lines about something else, named by a plural noun.
    pub(crate) const fn of(noun: &'static str) -> Self {
        Self {
            noun,
            till: None,
            lines: 0,
            skipped: 0,
        }
    }

    /// Logs a warning, or counts it.
    pub(crate) fn warn(&mut self, now: Instant, line: impl FnOnce() -> String) {
        self.summarize(now);
        if self.admits(now) {
            warn!("{}", line());
        }
    }

    /// Logs the line of an event, or counts the event.
    pub(crate) fn log(&mut self, now: Instant, line: impl FnOnce() -> String) {
        self.summarize(now);
        if self.admits(now) {
            info!("{}", line());
        }
    }

    /// Logs the number of events that were only counted, after the end of their interval.
    pub(crate) fn summarize(&mut self, now: Instant) {
        if let Some(skipped) = self.ended(now) {
            let seconds = INTERVAL.as_secs();
            let noun = self.noun;
            info!("{skipped} more {noun} in {seconds} s are not listed");
        }
    }

    fn admits(&mut self, now: Instant) -> bool {
        self.till.get_or_insert(now + INTERVAL);
        let admits = self.lines < LINES_MAX;
        if admits {
            self.lines += 1;
        } else {
            self.skipped += 1;
        }
        admits
    }

    /// Ends an interval, if its time has passed. Returns the number of events without a line, if there were any.
    fn ended(&mut self, now: Instant) -> Option<u64> {
        self.till.filter(|till| *till <= now)?;
        let skipped = std::mem::replace(self, Self::of(self.noun)).skipped;
        (skipped > 0).then_some(skipped)
    }
}

/// Interval in which at most [`LINES_MAX`] lines are logged.
const INTERVAL: Duration = Duration::from_secs(10);
const LINES_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_refusals_of_an_interval_are_listed_and_further_refusals_counted() {
        let mut limit = LineLimit::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let listed = (0..100).filter(|_| limit.admits(at(1))).count();
        assert_eq!(listed, LINES_MAX as usize);
        assert_eq!(limit.ended(at(10)), None);
        assert_eq!(limit.ended(at(11)), Some(84));
        assert_eq!(limit.ended(at(11)), None);
        assert!(limit.admits(at(12)));
        assert_eq!(limit.ended(at(22)), None, "all were listed");
        assert!(limit.admits(at(22)));
    }
}
