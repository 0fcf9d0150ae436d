//! The only place that reads time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lighthaul_base::Instant;

/// A monotonic clock; its world begins when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_nanos: u64,
}

impl Clock {
    /// A clock that starts at zero now.
    pub fn start() -> Self {
        Self {
            origin_nanos: monotonic_nanos(),
        }
    }

    /// The time since the clock was started.
    pub fn now(self) -> Instant {
        Instant::from_nanos(monotonic_nanos().saturating_sub(self.origin_nanos))
    }

    /// How long it is from now until `at`; zero if that is past.
    pub fn until(self, at: Instant) -> Duration {
        at.since(self.now())
    }
}

/// Seconds since 1970, for logs and seeds.
pub fn unix_nanos() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds of CPU that this process has used so far, threads included.
pub fn cpu_seconds() -> f64 {
    cpu_time().as_secs_f64()
}

/// The CPU time that this process has used so far, threads included.
pub fn cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: usage is valid for writes of one rusage.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if status != 0 {
        return Duration::ZERO;
    }
    // SAFETY: getrusage filled it, and all zeroes would be valid too.
    let usage = unsafe { usage.assume_init() };
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.unsigned_abs())
            + Duration::from_micros(t.tv_usec.unsigned_abs())
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Lets the calling thread's sleeps end within a microsecond rather than fifty.
pub fn sharpen_sleeps() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches only the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_usize, 0, 0, 0) };
}

fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: time is valid for writes of one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
