//! Description of a failure, and the version.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_char;

use super::code::{LH_OK, ResultCode};
use crate::call;

/// Returns the code of the latest failure in this thread, or `LH_OK` if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn lh_error_code() -> ResultCode {
    call::latest_code().map_or(LH_OK, |code| i32::from(code as u8))
}

/// Returns one sentence about the latest failure in this thread. It is valid until the next failure in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn lh_error_message() -> *const c_char {
    call::latest_message()
}

/// Returns what to do about the latest failure in this thread. It is valid until the next failure in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn lh_error_remedy() -> *const c_char {
    call::latest_remedy()
}

/// Returns the version of the library, as in 0.1.0. It is always valid.
#[unsafe(no_mangle)]
pub extern "C" fn lh_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
