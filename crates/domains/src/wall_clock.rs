//! Wall-clock time, which the domains of a path share.

use lighthaul_base::Instant;
use lighthaul_io::host::clock::unix_nanos;

/// Returns the time in nanoseconds since 1970.
pub(crate) fn wall_now() -> Instant {
    Instant::from_nanos(unix_nanos())
}
