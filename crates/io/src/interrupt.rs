//! Being asked to stop: the first signal is a request, the second the end. Who stops gently is asked to come to an end
//! by one more before these.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::error::Error;

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Signals that still come before one is a request.
static GENTLE: AtomicU8 = AtomicU8::new(0);
static ENDING: AtomicBool = AtomicBool::new(false);

/// The same as [`catch`], but a first signal only asks to take on nothing more and to end what there is: [`is_ending`].
pub fn catch_gently() -> io::Result<()> {
    GENTLE.store(1, Ordering::Relaxed);
    catch()
}

/// Whether somebody asked to come to an end, or to stop.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed) || is_requested()
}

/// Takes Ctrl-C, hang-up and termination for requests from now on; a second one ends the process.
pub fn catch() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: an all-zero sigaction is valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
        // SAFETY: action is valid, and the handler only does what a signal handler may.
        let status = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Asks to stop, as a first signal would.
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Whether somebody asked to stop.
pub fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Fails if somebody asked to stop.
pub fn check() -> Result<(), Error> {
    if is_requested() {
        Err(Error::Interrupted)
    } else {
        Ok(())
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    ENDING.store(true, Ordering::Relaxed);
    if GENTLE.swap(0, Ordering::Relaxed) > 0 {
        return;
    }
    if REQUESTED.swap(true, Ordering::Relaxed) {
        // SAFETY: _exit may be called from a signal handler.
        unsafe { libc::_exit(128 + signal) };
    }
}
