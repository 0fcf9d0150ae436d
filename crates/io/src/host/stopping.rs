//! Limit on waits for devices after the process was asked to stop.
//!
//! A driver may wait minutes for a device. A process that was asked to stop waits `GRACE` for the next answer of a
//! device, and at most `GRACE_MAX` for all of its answers. Each driver has a [`StopLimit`] of its own, so that an
//! answer of one device prolongs no wait for another device.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lighthaul_base::Instant;

use super::clock::Clock;
use super::interrupt;
use super::wait::wait;

/// Clock that begins with the first look after a stop was requested.
static STOPPING: OnceLock<Clock> = OnceLock::new();

/// Limit of the waits of one driver after a stop. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StopLimit {
    /// Time of the latest answer since the stop, in nanoseconds.
    answered: Arc<AtomicU64>,
}

impl StopLimit {
    /// Returns true if a stop was requested, and the time for answers has ended.
    pub fn is_overdue(&self) -> bool {
        interrupt::is_requested() && {
            let now = STOPPING.get_or_init(Clock::start).now();
            now >= end(Instant::from_nanos(self.answered.load(Ordering::Relaxed)))
        }
    }

    /// Notes an answer of the device, so that the time limit of the next answer starts again.
    pub fn renew(&self) {
        if let Some(clock) = STOPPING.get() {
            self.answered
                .store(clock.now().as_nanos(), Ordering::Relaxed);
        }
    }

    /// Waits until `till`. Returns false if the process has to stop before.
    pub fn pause(&self, clock: Clock, till: Instant) -> bool {
        while clock.now() < till {
            if self.is_overdue() || wait(clock, &mut [], next_look(clock, till)).is_err() {
                return false;
            }
        }
        true
    }
}

/// Returns the end of all waits after the latest answer.
fn end(answered: Instant) -> Instant {
    (answered + GRACE).min(Instant::ZERO + GRACE_MAX)
}

/// Returns the time of the next look at a [`StopLimit`], at most `till`.
pub fn next_look(clock: Clock, till: Instant) -> Instant {
    till.min(clock.now() + LOOK)
}

/// Time limit for the next answer of a device, after a request to stop.
const GRACE: Duration = Duration::from_secs(5);
/// Time limit for all answers of devices, after a request to stop. `dist/lighthaul-domain.service` allows more.
const GRACE_MAX: Duration = Duration::from_mins(1);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_extends_the_deadline_up_to_a_minute() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        for (answered, last) in [(0, 5), (4, 9), (54, 59), (57, 60), (90, 60)] {
            assert_eq!(end(at(answered)), at(last));
        }
    }
}
