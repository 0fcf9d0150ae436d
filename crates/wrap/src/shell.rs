//! Replacements for the functions of libc that start a shell: `system`, `popen` and `wordexp`.
//!
//! libc starts it with functions of its own, which cannot be replaced, and with the environment of this process. So
//! the environment is made complete before.

use std::ffi::{c_char, c_void};
use std::mem::transmute;

use libc::{FILE, c_int};

use crate::exec::{Place, is_refused};
use crate::keep::restore;
use crate::libc_function::LibcFunction;
use crate::program_file::obstacle;
use crate::socket::set_errno;

type System = unsafe extern "C" fn(*const c_char) -> c_int;
type Popen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;
type Wordexp = unsafe extern "C" fn(*const c_char, *mut c_void, c_int) -> c_int;

/// Replaces `system`: runs a command of the shell.
///
/// # Safety
///
/// The same as for the function of libc: null or a command, and no other thread changes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"system");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<System>>(OWN.address()) };
    // SAFETY: the caller guarantees that nothing changes the environment.
    unsafe { restore() };
    match own {
        Some(own) if command.is_null() || !is_refused(&shell()) => {
            // SAFETY: the caller guarantees what libc requires of the argument.
            unsafe { own(command) }
        }
        // the status of a shell that could not be executed
        _ => 127 << 8,
    }
}

/// Replaces `popen`: starts a command of the shell with a pipe.
///
/// # Safety
///
/// The same as for the function of libc: a command and a mode, and no other thread changes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    static OWN: LibcFunction = LibcFunction::new(c"popen");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<Popen>>(OWN.address()) };
    // SAFETY: the caller guarantees that nothing changes the environment.
    unsafe { restore() };
    match own {
        // SAFETY: the caller guarantees what libc requires of the arguments.
        Some(own) if !is_refused(&shell()) => unsafe { own(command, mode) },
        _ => {
            set_errno(libc::EACCES);
            std::ptr::null_mut()
        }
    }
}

/// Replaces `wordexp`, which runs the commands in words.
///
/// # Safety
///
/// The same as for the function of libc: words, their place, and no other thread changes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wordexp(words: *const c_char, into: *mut c_void, flags: c_int) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"wordexp");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<Wordexp>>(OWN.address()) };
    // SAFETY: the caller guarantees that nothing changes the environment.
    unsafe { restore() };
    let (folder, path) = shell();
    let commands = if obstacle(folder, &path).is_some() {
        WRDE_NOCMD
    } else {
        0
    };
    // SAFETY: the caller guarantees what libc requires of the arguments.
    let status = own.map_or(WRDE_NOSPACE, |own| unsafe {
        own(words, into, flags | commands)
    });
    if status == WRDE_CMDSUB && flags & WRDE_NOCMD == 0 {
        is_refused(&shell());
    }
    status
}

/// Returns the path of the shell that libc starts.
fn shell() -> Place {
    (libc::AT_FDCWD, c"/bin/sh".to_owned())
}

/// Flag and statuses of wordexp(3), the same in all C libraries of Linux.
const WRDE_NOCMD: c_int = 4;
const WRDE_NOSPACE: c_int = 1;
const WRDE_CMDSUB: c_int = 4;
