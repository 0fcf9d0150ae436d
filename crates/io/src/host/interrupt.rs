//! Requests to stop the process: the first signal asks, the second signal ends the process at once. After
//! [`handle_signals_gracefully`], one earlier signal only asks to finish the present work. Signals that come within
//! [`TOGETHER`] count as one: `timeout` and service managers send theirs to the process and then to its group.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::host::cancellation::Cancellation;
use crate::host::clock::monotonic_nanos;

/// Time within which several signals count as one.
pub const TOGETHER: Duration = Duration::from_millis(50);

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Signals that only ask for a gentle end.
static GRACEFUL: AtomicU8 = AtomicU8::new(0);
static ENDING: AtomicBool = AtomicBool::new(false);
/// The clock's reading at the last signal that counted, or 0.
static COUNTED_AT: AtomicU64 = AtomicU64::new(0);

/// Handles signals like [`handle_signals`], but the first signal only asks to finish present work: see [`is_ending`].
pub fn handle_signals_gracefully() -> io::Result<()> {
    GRACEFUL.store(1, Ordering::Relaxed);
    handle_signals()
}

/// Reports whether a gentle end or a stop was requested.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed) || is_requested()
}

/// Handles SIGINT, SIGTERM and SIGHUP as requests to stop. A second signal ends the process (status 128 + number).
pub fn handle_signals() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: an all-zero sigaction is valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
        // SAFETY: action is valid, and the handler is async-signal-safe.
        let status = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Requests a stop, as a first signal does.
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Reports whether a stop was requested, of the process or of this thread's task.
pub fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed) || Cancellation::current().is_cancelled()
}

/// Fails with [`Error::Interrupted`] if a stop was requested.
pub fn check() -> Result<(), Error> {
    if is_requested() {
        Err(Error::Interrupted)
    } else {
        Ok(())
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    ENDING.store(true, Ordering::Relaxed);
    // clock_gettime is async-signal-safe
    let now = monotonic_nanos();
    let last = COUNTED_AT.load(Ordering::Relaxed);
    if last > 0 && u128::from(now.saturating_sub(last)) < TOGETHER.as_nanos() {
        return;
    }
    // another thread may handle a signal at this moment, and only one of them counts
    let counted = COUNTED_AT.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
    if counted.is_err() {
        return;
    }
    if GRACEFUL.swap(0, Ordering::Relaxed) > 0 {
        return;
    }
    if REQUESTED.swap(true, Ordering::Relaxed) {
        // SAFETY: _exit may be called from a signal handler.
        unsafe { libc::_exit(128 + signal) };
    }
}
