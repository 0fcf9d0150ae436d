//! Attempts of a copy before the present one.

use lighthaul_base::Instant;
use lighthaul_transfer::watch::{Motion, Summary};

/// What the tries of a copy came to before the present one.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// They failed, and these moved so much together.
    failed: Option<Motion>,
    /// How far the present one is.
    pub(super) now: Motion,
    /// When data first began to move.
    pub(super) moving: Option<Instant>,
}

impl Tries {
    /// The present try has failed, and another will be made.
    pub(super) fn fail(&mut self) {
        let now = std::mem::take(&mut self.now);
        self.failed = Some(added(self.failed.unwrap_or_default(), &now));
    }

    /// What the whole copy came to, of which the last try came to `summary`, at `now` by a clock that began with it.
    pub(super) fn whole(&self, mut summary: Summary, now: Instant) -> Summary {
        let Some(before) = &self.failed else {
            return summary;
        };
        summary.elapsed = now.since(Instant::ZERO);
        summary.moving = self.moving.map_or(summary.moving, |since| now.since(since));
        summary.motion = added(summary.motion, before);
        summary.motion.total += before.done;
        // what an earlier try has put in place the last one found there
        summary.unchanged = summary.unchanged.saturating_sub(before.published);
        summary
    }
}

/// What both moved together.
fn added(mut one: Motion, other: &Motion) -> Motion {
    one.done += other.done;
    one.sent += other.sent;
    one.resent += other.resent;
    one.buffer_drops += other.buffer_drops;
    one.foreign += other.foreign;
    one.published += other.published;
    one.round = one.round.max(other.round);
    one
}
