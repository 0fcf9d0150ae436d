//! End of waits for devices once the process has to stop.
//!
//! A driver may wait minutes for a device. A process that was asked to stop gives all its devices
//! [`GRACE`] together, and then no request waits any longer.

use std::sync::OnceLock;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::wait;

/// Clock that begins with the first look after a stop was requested.
static STOPPING: OnceLock<Clock> = OnceLock::new();

/// Returns true if a stop was requested, and the time for answers has ended.
pub(crate) fn is_overdue() -> bool {
    interrupt::is_requested() && STOPPING.get_or_init(Clock::start).now() >= Instant::ZERO + GRACE
}

/// Waits until `till`. Returns false if the process has to stop before.
pub(crate) fn pause(clock: Clock, till: Instant) -> bool {
    while clock.now() < till {
        if is_overdue() || wait(clock, &mut [], next_look(clock, till)).is_err() {
            return false;
        }
    }
    true
}

/// Returns the time of the next look at [`is_overdue`], at most `till`.
pub(crate) fn next_look(clock: Clock, till: Instant) -> Instant {
    till.min(clock.now() + LOOK)
}

/// Time for the answers of devices after a stop was requested.
const GRACE: Duration = Duration::from_secs(5);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
