//! Clocks and CPU times. No other file of the crate reads the system's clocks.
//!
//! [`Clock`] is monotonic and starts at zero, so its times have no meaning in other processes.
//! Machines receive these times as arguments. The time of day serves logs, seeds and timetables; it
//! may jump. Local times use the time zone of this host (`localtime_r(3)`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lighthaul_base::{Instant, WeekTime};

/// Monotonic clock that counts from the moment of its creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_nanos: u64,
}

impl Clock {
    /// Creates a clock that reads zero now.
    pub fn start() -> Self {
        Self {
            origin_nanos: monotonic_nanos(),
        }
    }

    /// Returns the time since the clock's creation.
    pub fn now(self) -> Instant {
        Instant::from_nanos(monotonic_nanos().saturating_sub(self.origin_nanos))
    }

    /// Returns the time from now until `at`, or zero if `at` is past.
    pub fn until(self, at: Instant) -> Duration {
        at.since(self.now())
    }
}

/// Returns the nanoseconds since 1970 (UTC), for logs and seeds.
pub fn unix_nanos() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns true if the kernel knows that a time server or another reference keeps the time of day (`adjtimex(2)`).
pub fn is_synchronized() -> bool {
    let mut state = std::mem::MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: the modes are zero, so the call only writes the state.
    let clock = unsafe { libc::adjtimex(state.as_mut_ptr()) };
    (0..libc::TIME_ERROR).contains(&clock)
}

/// Returns the seconds since 1970 (UTC) of a local date (year, month, day) and time (hour, minute, second). Without a
/// date, returns the next such time. Returns `None` if the date does not exist or is before 1970.
pub fn unix_of_local(date: Option<[i32; 3]>, time: [i32; 3]) -> Option<i64> {
    let now = i64::try_from(unix_nanos() / 1_000_000_000).ok()?;
    let mut local = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid; localtime_r writes to no other memory.
    unsafe { libc::localtime_r(&raw const now, local.as_mut_ptr()) };
    // SAFETY: zeroes are a valid tm, and so is localtime_r's result.
    let mut local = unsafe { local.assume_init() };
    if let Some([year, month, day]) = date {
        if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day)
        {
            return None;
        }
        (local.tm_year, local.tm_mon, local.tm_mday) = (year - 1900, month - 1, day);
    }
    [local.tm_hour, local.tm_min, local.tm_sec] = time;
    local.tm_isdst = -1;
    let mut at = local;
    // SAFETY: at is a valid tm.
    let mut seconds = unsafe { libc::mktime(&raw mut at) };
    if date.is_none() && seconds < now {
        local.tm_mday += 1;
        // SAFETY: local is a valid tm.
        seconds = unsafe { libc::mktime(&raw mut local) };
    }
    (seconds >= 0).then_some(seconds)
}

/// Returns the offset of this host's time zone from UTC in seconds, at a time in seconds since 1970.
pub fn local_offset(at: i64) -> i32 {
    let mut local = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid; localtime_r writes to no other memory.
    unsafe { libc::localtime_r(&raw const at, local.as_mut_ptr()) };
    // SAFETY: zeroes are a valid tm, and so is localtime_r's result.
    let local = unsafe { local.assume_init() };
    i32::try_from(local.tm_gmtoff).unwrap_or(0)
}

/// Returns the time of the week in this host's time zone, for lookups in timetables.
pub fn week_time() -> WeekTime {
    let now = (unix_nanos() / 1_000_000_000).cast_signed();
    let mut local = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid; localtime_r writes to no other memory.
    unsafe { libc::localtime_r(&raw const now, local.as_mut_ptr()) };
    // SAFETY: zeroes are a valid tm, and so is localtime_r's result.
    let local = unsafe { local.assume_init() };
    // In libc a week begins on Sunday, and a leap second is second 60.
    let day = (local.tm_wday + 6) % 7;
    let second = (local.tm_hour * 60 + local.tm_min) * 60 + local.tm_sec.min(59);
    WeekTime::new(day.unsigned_abs(), second.unsigned_abs()).unwrap_or_default()
}

/// Returns the CPU seconds that all threads of this process have used.
pub fn cpu_seconds() -> f64 {
    cpu_time().as_secs_f64()
}

/// Returns the CPU time, user and system, that all threads of this process have used.
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

/// Lowers the calling thread's timer slack from 50 to 1 microsecond, so that its sleeps end on time.
pub fn lower_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches only the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_usize, 0, 0, 0) };
}

/// Returns the monotonic clock's reading. A signal handler may call it.
pub(crate) fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: time is valid for writes of one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn week_time_agrees_with_the_date_command() {
        // The second may change between the two readings: try three times.
        let agrees = (0..3).any(|_| {
            let date = std::process::Command::new("date")
                .arg("+%u %H %M %S")
                .output();
            let text = String::from_utf8(date.unwrap().stdout).unwrap();
            let fields: Vec<u32> = text
                .split_whitespace()
                .map(|field| field.parse().unwrap())
                .collect();
            let second = fields[1] * 3600 + fields[2] * 60 + fields[3];
            WeekTime::new(fields[0] - 1, second).unwrap() == week_time()
        });
        assert!(agrees);
    }
}
