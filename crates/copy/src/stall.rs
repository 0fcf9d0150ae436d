//! Timeout of transfers in which neither side makes progress, even if the peer sends keepalives.
//!
//! ```text
//! seen here: bytes, entries, own steps ----------+
//! told by the peer: its counter of work ---------+--> later of both + limit --> the session ends
//!                   (for at most TOLD_MAX after what was seen here)
//! planned waits of this side --------------------+  (for at most WAITS_MAX)
//! ```

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_session::error::Error;

use crate::error::Fault;
use crate::work::{Activity, Sampler, Work};

/// Time without any work after which a transfer ends, unless the client asks for less.
const STALL: Duration = Duration::from_mins(10);
/// Time that is added to the limit, since the peer reports its work once a second.
const GRACE: Duration = Duration::from_secs(4);
/// Time for which the peer's reports alone keep a transfer alive: enough to digest a file of a few TB.
const TOLD_MAX: Duration = Duration::from_hours(2);
/// Time for which a planned wait of this side keeps a transfer alive.
const WAITS_MAX: Duration = Duration::from_hours(24);
/// Interval of looks at the work.
const LOOK: Duration = Duration::from_secs(1);

/// Detector of a transfer without progress.
#[derive(Debug)]
pub struct Stall {
    limit: Duration,
    sampler: Sampler,
    looks_at: Instant,
    /// Time of the last work that this side saw.
    seen_at: Instant,
    /// Time of the last work that the peer reported.
    told_at: Instant,
    /// Counter of work in that report.
    told: u64,
}

impl Stall {
    /// Returns a detector for a transfer that begins at `now`. `seconds` is the limit that was asked for, or zero.
    pub fn new(now: Instant, seconds: u32) -> Self {
        Self {
            limit: match seconds {
                0 => STALL,
                _ => Duration::from_secs(seconds.into()),
            },
            sampler: Sampler::default(),
            looks_at: now,
            seen_at: now,
            told_at: now,
            told: 0,
        }
    }

    /// Fails if the transfer made no progress for too long. `told` is the peer's counter of its work.
    pub fn check(&mut self, now: Instant, work: &Work, told: u64) -> Result<(), Error> {
        if now < self.looks_at {
            return Ok(());
        }
        self.looks_at = now + LOOK;
        let activity = self.sampler.look(work);
        let has_told = std::mem::replace(&mut self.told, told) != told;
        if activity == Activity::Works {
            self.seen_at = now;
        } else if has_told && now.since(self.seen_at) < TOLD_MAX
            || activity == Activity::Waits && now.since(self.seen_at) < WAITS_MAX
        {
            self.told_at = now;
        }
        if now.since(self.seen_at.max(self.told_at)) > self.limit + GRACE {
            return Err(Fault::Idle(self.limit.as_secs()).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a detector for `hours`, in which `at` says each second what is done; returns when the transfer ends.
    fn end(seconds: u32, hours: u64, mut at: impl FnMut(u64, &Work) -> u64) -> Option<u64> {
        let work = Work::default();
        let mut stall = Stall::new(Instant::ZERO, seconds);
        (0..hours * 3600).find(|second| {
            let told = at(*second, &work);
            let now = Instant::ZERO + Duration::from_secs(*second);
            stall.check(now, &work, told).is_err()
        })
    }

    #[test]
    fn peer_that_only_sends_keepalives_is_ended() {
        assert_eq!(end(0, 1, |_, _| 7), Some(600 + 4 + 1));
        assert_eq!(end(20, 1, |_, _| 7), Some(20 + 4 + 1));
    }

    #[test]
    fn work_of_either_side_keeps_a_transfer() {
        let own = |second: u64, work: &Work| {
            if second.is_multiple_of(500) {
                work.advance();
            }
            0
        };
        assert_eq!(end(0, 100, own), None);
        // the peer's counter counts beside what is seen here
        let both = |second: u64, work: &Work| {
            if second.is_multiple_of(3600) {
                work.advance();
            }
            second / 500
        };
        assert_eq!(end(0, 20, both), None);
    }

    #[test]
    fn peer_counter_keeps_a_transfer_for_two_hours_and_a_planned_wait_for_a_day() {
        let lie = |second: u64, _: &Work| second;
        assert_eq!(end(20, 30, lie), Some(2 * 3600 + 24));
        let waits = |_: u64, work: &Work| {
            work.wait();
            0
        };
        assert_eq!(end(20, 30, waits), Some(24 * 3600 + 24));
    }

    #[test]
    fn work_is_sampled_once_a_second_and_late_samples_detect_a_stall() {
        let (work, millis) = (Work::default(), Duration::from_millis);
        let mut stall = Stall::new(Instant::ZERO, 20);
        stall.check(Instant::ZERO, &work, 5).unwrap();
        for (at, told) in [
            (500, 5),
            (999, 5),
            (1000, 6),
            (1001, 6),
            (1999, 6),
            (2000, 7),
        ] {
            stall
                .check(Instant::ZERO + millis(at), &work, at / 1000 + 5)
                .unwrap();
            assert_eq!(stall.told, told, "{at}");
        }
        stall
            .check(Instant::ZERO + millis(26_000), &work, 7)
            .unwrap();
        assert!(
            stall
                .check(Instant::ZERO + millis(26_100), &work, 7)
                .is_ok()
        );
        assert!(
            stall
                .check(Instant::ZERO + millis(29_000), &work, 7)
                .is_err()
        );
    }
}
