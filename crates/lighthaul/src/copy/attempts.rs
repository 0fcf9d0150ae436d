//! Attempts of a copy before the present one.

use lighthaul_base::Instant;
use lighthaul_copy::watch::{CopyProgress, Summary};

/// Progress of the attempts of a copy.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// Sum of the attempts that failed.
    failed: Option<CopyProgress>,
    /// Progress of the current attempt.
    pub(crate) now: CopyProgress,
    /// Time when data first moved.
    pub(crate) moving: Option<Instant>,
}

impl Attempts {
    /// Records that the current attempt failed and another follows.
    pub(crate) fn fail(&mut self) {
        let now = std::mem::take(&mut self.now);
        self.failed = Some(added(self.failed.unwrap_or_default(), &now));
    }

    /// Returns the summary of all attempts. `summary` is that of the last one, and `now` counts from the start of
    /// the first.
    pub(crate) fn whole(&self, mut summary: Summary, now: Instant) -> Summary {
        let Some(before) = &self.failed else {
            return summary;
        };
        summary.elapsed = now.since(Instant::ZERO);
        summary.moving = self.moving.map_or(summary.moving, |since| now.since(since));
        summary.motion = added(summary.motion, before);
        summary.motion.total += before.done;
        // the last attempt found the files that earlier ones had completed
        summary.unchanged = summary.unchanged.saturating_sub(before.published);
        summary
    }
}

/// Returns the sum of both.
pub(crate) fn added(mut one: CopyProgress, other: &CopyProgress) -> CopyProgress {
    one.done += other.done;
    one.sent += other.sent;
    one.resent += other.resent;
    one.buffer_drops += other.buffer_drops;
    one.foreign += other.foreign;
    one.published += other.published;
    one.lanes = one.lanes.max(other.lanes);
    one.source_wait = one.source_wait.saturating_add(other.source_wait);
    one.target_wait = one.target_wait.saturating_add(other.target_wait);
    one.object_time = one.object_time.saturating_add(other.object_time);
    one.delta = one.delta.and(other.delta);
    one.round = one.round.max(other.round);
    one
}
