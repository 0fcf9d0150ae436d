//! One call by the program: panics, the signal SIGPIPE, and the description of a failure.
//!
//! SIGPIPE ends a program in C that writes to a closed connection, unless the program ignores the signal. A call blocks
//! the signal in its thread and in all threads that it starts, and removes a pending one at the end. The program's
//! signal handling stays as it is.
#![expect(unsafe_code, reason = "signal masks of libc")]

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr;

use lighthaul::{Code as Kind, Error};
use lighthaul_session::error::caught;

/// Latest failure of a thread.
struct Failure {
    code: Kind,
    message: CString,
    remedy: CString,
}

thread_local! {
    static LATEST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Runs the work of a call. Stores the description of a failure, and returns its kind.
pub(crate) fn run<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Kind> {
    let result = {
        let _blocked = NoPipe::new();
        caught("liblighthaul", work)
    };
    result.map_err(|error| {
        let code = error.code();
        let failure = Failure {
            code,
            message: c_string(&error.text()),
            remedy: c_string(&error.remedy()),
        };
        LATEST.set(Some(failure));
        code
    })
}

/// Returns the kind of the latest failure in this thread.
pub(crate) fn latest_code() -> Option<Kind> {
    LATEST.with_borrow(|latest| latest.as_ref().map(|failure| failure.code))
}

/// Returns the sentence about the latest failure in this thread, valid until the next failure.
pub(crate) fn latest_message() -> *const c_char {
    latest(|failure| &failure.message)
}

/// Returns what to do about the latest failure in this thread, valid until the next failure.
pub(crate) fn latest_remedy() -> *const c_char {
    latest(|failure| &failure.remedy)
}

fn latest(part: impl FnOnce(&Failure) -> &CString) -> *const c_char {
    LATEST.with_borrow(|latest| {
        latest
            .as_ref()
            .map_or(c"".as_ptr(), |failure| part(failure).as_ptr())
    })
}

/// Returns the text as a C string, without zero bytes.
pub(crate) fn c_string(text: &str) -> CString {
    let text: String = text.chars().filter(|sign| *sign != '\0').collect();
    CString::new(text).unwrap_or_default()
}

/// State of this thread in which SIGPIPE is blocked. Restores the earlier state on drop.
struct NoPipe {
    before: libc::sigset_t,
    /// True if a signal of the program was pending before.
    was_pending: bool,
}

impl NoPipe {
    fn new() -> Self {
        let pipe = only_pipe();
        let mut before = empty();
        // SAFETY: both sets are initialized.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before) };
        let was_pending = is_pending();
        Self {
            before,
            was_pending,
        }
    }
}

impl Drop for NoPipe {
    fn drop(&mut self) {
        if !self.was_pending && is_pending() {
            let pipe = only_pipe();
            let now = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: the set and the time are initialized, and no information about the signal is wanted.
            unsafe { libc::sigtimedwait(&raw const pipe, ptr::null_mut(), &raw const now) };
        }
        // SAFETY: the set is initialized, and the old one is not wanted.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initializes the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: as above.
    unsafe { set.assume_init() }
}

fn only_pipe() -> libc::sigset_t {
    let mut set = empty();
    // SAFETY: the set is initialized.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGPIPE) };
    set
}

fn is_pending() -> bool {
    let mut pending = empty();
    // SAFETY: the set is initialized.
    unsafe { libc::sigpending(&raw mut pending) };
    // SAFETY: as above.
    unsafe { libc::sigismember(&raw const pending, libc::SIGPIPE) == 1 }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::fault::Fault;

    fn is_blocked() -> bool {
        let mut now = empty();
        // SAFETY: the sets are initialized or null.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut now) };
        // SAFETY: the set is initialized.
        unsafe { libc::sigismember(&raw const now, libc::SIGPIPE) == 1 }
    }

    fn text(pointer: *const c_char) -> String {
        // SAFETY: the string was made by this module, and ends with zero.
        let text = unsafe { CStr::from_ptr(pointer) };
        text.to_str().unwrap().to_owned()
    }

    #[test]
    fn failures_and_panics_are_described_in_their_thread() {
        assert_eq!(
            (latest_code(), text(latest_message())),
            (None, String::new())
        );
        assert_eq!(run(|| Ok(7)), Ok(7));
        let failed = run::<()>(|| Err(Fault::Null("target").into()));
        assert_eq!(failed, Err(Kind::Usage));
        assert!(text(latest_message()).starts_with("target is null"));
        assert!(!text(latest_remedy()).is_empty());
        assert_eq!(
            run::<()>(|| panic!("broken on purpose")),
            Err(Kind::Internal)
        );
        assert!(text(latest_message()).contains("broken on purpose"));
        let other = std::thread::spawn(latest_code).join().unwrap();
        assert_eq!((latest_code(), other), (Some(Kind::Internal), None));
    }

    #[test]
    fn broken_pipe_signal_of_a_call_does_not_reach_the_program() {
        assert!(!is_blocked());
        run(|| {
            assert!(is_blocked());
            assert!(std::thread::spawn(is_blocked).join().unwrap());
            // SAFETY: the signal is blocked in this thread.
            unsafe { libc::raise(libc::SIGPIPE) };
            assert!(is_pending());
            Ok(())
        })
        .unwrap();
        assert!(!is_blocked() && !is_pending());
    }
}
