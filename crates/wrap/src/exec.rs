//! Replacements for libc's `exec` family, `posix_spawn`, `clearenv` and `unsetenv`. A program that this one starts is
//! captured, too, independent of its environment. If it cannot be captured, it is not started.
//!
//! `execl`, `execlp` and `execle`, which take any number of arguments, are in `exec_list`; the functions that start a
//! shell are in `shell`.

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute;

use libc::{c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use crate::complaint::Complaint;
use crate::keep::{Environment, complete, environ, is_kept, put_back};
use crate::libc_function::LibcFunction;
use crate::program_file::{Verdict, obstacle, verdict};
use crate::socket::set_errno;

type Strings = *const *const c_char;
type ExecVe = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;
type ExecVeAt = unsafe extern "C" fn(c_int, *const c_char, Strings, Strings, c_int) -> c_int;
type FExecVe = unsafe extern "C" fn(c_int, Strings, Strings) -> c_int;
type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const posix_spawn_file_actions_t,
    *const posix_spawnattr_t,
    Strings,
    Strings,
) -> c_int;
type Clear = unsafe extern "C" fn() -> c_int;
type Unset = unsafe extern "C" fn(*const c_char) -> c_int;

/// Replaces `execve`: replaces this process image by a program.
///
/// # Safety
///
/// The same as for the function of libc: a path, and two arrays of strings that end with null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"execve");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<ExecVe>>(OWN.address()) };
    // SAFETY: the caller guarantees what libc requires of the arguments.
    unsafe { run(own, (libc::AT_FDCWD, path, false), argv, envp) }
}

/// Replaces `execv`, which uses the environment of this process.
///
/// # Safety
///
/// The same as for the function of libc: a path, and an array of strings that ends with null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: as for libc's, the environment is not changed meanwhile.
    unsafe { execve(path, argv, environ) }
}

/// Replaces `execvp`, which searches `PATH`.
///
/// # Safety
///
/// The same as for the function of libc: a name or path, and an array of strings that ends with null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: as for libc's, the environment is not changed meanwhile.
    unsafe { execvpe(file, argv, environ) }
}

/// Replaces `execvpe`, which searches `PATH` and takes an environment.
///
/// # Safety
///
/// The same as for the function of libc: a name or path, and two arrays of strings that end with null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"execvpe");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<ExecVe>>(OWN.address()) };
    // SAFETY: the caller guarantees what libc requires of the arguments.
    unsafe { run(own, (libc::AT_FDCWD, file, true), argv, envp) }
}

/// Replaces `execveat`: the path is relative to a directory.
///
/// # Safety
///
/// The same as for the function of libc: a path, and two arrays of strings that end with null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    argv: Strings,
    envp: Strings,
    flags: c_int,
) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"execveat");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<ExecVeAt>>(OWN.address()) };
    // SAFETY: the path is a C string.
    let at = unsafe { place(folder, path) };
    // SAFETY: the entries of the environment are C strings, too.
    let kept = unsafe { complete(envp) };
    let envp = kept.as_ref().map_or(envp, Environment::as_ptr);
    match own {
        None => fail(libc::ENOSYS),
        Some(_) if is_refused(&at) => fail(libc::EACCES),
        // SAFETY: the caller guarantees what libc requires of the arguments.
        Some(own) => unsafe { own(folder, path, argv, envp, flags) },
    }
}

/// Replaces `fexecve`: the program is an open file.
///
/// # Safety
///
/// The same as for the function of libc: two arrays of strings that end with null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, argv: Strings, envp: Strings) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"fexecve");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<FExecVe>>(OWN.address()) };
    // SAFETY: the path is a C string.
    let at = unsafe { place(fd, c"".as_ptr()) };
    // SAFETY: the entries of the environment are C strings, too.
    let kept = unsafe { complete(envp) };
    let envp = kept.as_ref().map_or(envp, Environment::as_ptr);
    match own {
        None => fail(libc::ENOSYS),
        Some(_) if is_refused(&at) => fail(libc::EACCES),
        // SAFETY: the caller guarantees what libc requires of the arguments.
        Some(own) => unsafe { own(fd, argv, envp) },
    }
}

/// Replaces `posix_spawn`: starts a child process.
///
/// # Safety
///
/// The same as for the function of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: Strings,
    envp: Strings,
) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"posix_spawn");
    // SAFETY: the caller guarantees what libc requires of the arguments.
    unsafe { spawn(&OWN, (pid, actions, attributes), (path, false), argv, envp) }
}

/// Replaces `posix_spawnp`, which searches `PATH`.
///
/// # Safety
///
/// The same as for the function of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: Strings,
    envp: Strings,
) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"posix_spawnp");
    // SAFETY: the caller guarantees what libc requires of the arguments.
    unsafe { spawn(&OWN, (pid, actions, attributes), (file, true), argv, envp) }
}

/// Replaces `clearenv`. It keeps the two variables of this library.
///
/// # Safety
///
/// The same as for the function of libc: no other thread reads or changes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clearenv() -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"clearenv");
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<Clear>>(OWN.address()) };
    // SAFETY: the caller guarantees what libc requires of the arguments.
    let status = own.map_or(-1, |own| unsafe { own() });
    put_back();
    status
}

/// Replaces `unsetenv`. It keeps the two variables of this library.
///
/// # Safety
///
/// The same as for the function of libc: a name, and no other thread reads or changes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unsetenv(name: *const c_char) -> c_int {
    static OWN: LibcFunction = LibcFunction::new(c"unsetenv");
    // SAFETY: the name is a C string.
    if !name.is_null() && is_kept(unsafe { CStr::from_ptr(name) }) {
        return 0;
    }
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<Unset>>(OWN.address()) };
    // SAFETY: the caller guarantees what libc requires of the arguments.
    own.map_or(-1, |own| unsafe { own(name) })
}

/// Executes another program, unless that cannot be captured.
///
/// # Safety
///
/// A name or path, and two arrays of strings that end with null.
unsafe fn run(
    own: Option<ExecVe>,
    (folder, path, is_name): (c_int, *const c_char, bool),
    argv: Strings,
    envp: Strings,
) -> c_int {
    // SAFETY: the path is a C string, as the caller guarantees.
    let at = unsafe { place(folder, path) };
    // SAFETY: the entries of the environment are C strings, too.
    let kept = unsafe { complete(envp) };
    let at = if is_name { look_for(at) } else { at };
    let envp = kept.as_ref().map_or(envp, Environment::as_ptr);
    match own {
        None => fail(libc::ENOSYS),
        Some(_) if is_refused(&at) => fail(libc::EACCES),
        // SAFETY: the caller guarantees what libc requires of the arguments.
        Some(own) => unsafe { own(path, argv, envp) },
    }
}

/// Starts another program, unless that cannot be captured. Returns an error number and does not set `errno`.
///
/// # Safety
///
/// As for `posix_spawn`.
unsafe fn spawn(
    own: &LibcFunction,
    (pid, actions, attributes): (
        *mut pid_t,
        *const posix_spawn_file_actions_t,
        *const posix_spawnattr_t,
    ),
    (path, is_name): (*const c_char, bool),
    argv: Strings,
    envp: Strings,
) -> c_int {
    // SAFETY: a null address becomes None; the symbol of this name in libc has this type.
    let own = unsafe { transmute::<*mut c_void, Option<Spawn>>(own.address()) };
    // SAFETY: the path is a C string, as the caller guarantees.
    let at = unsafe { place(libc::AT_FDCWD, path) };
    // SAFETY: the entries of the environment are C strings, too.
    let kept = unsafe { complete(envp) };
    let at = if is_name { look_for(at) } else { at };
    let envp = kept.as_ref().map_or(envp, Environment::as_ptr);
    match own {
        None => libc::ENOSYS,
        Some(_) if is_refused(&at) => libc::EACCES,
        // SAFETY: the caller guarantees what libc requires of the arguments.
        Some(own) => unsafe { own(pid, path, actions, attributes, argv, envp) },
    }
}

/// Place of a program: a directory, and a path relative to it.
pub(crate) type Place = (c_int, CString);

/// # Safety
///
/// `path` is null or a C string.
unsafe fn place(folder: c_int, path: *const c_char) -> Place {
    if path.is_null() {
        return (folder, CString::default());
    }
    // SAFETY: it is a C string.
    let path = unsafe { CStr::from_ptr(path) };
    if path.is_empty() {
        // the descriptor names the program itself
        let own = format!("/proc/self/fd/{folder}");
        return (libc::AT_FDCWD, CString::new(own).unwrap_or_default());
    }
    (folder, path.to_owned())
}

/// Returns the first program with a name in `PATH` that the kernel executes. As libc does, it continues behind files
/// that are missing, directories, or without permission, and behind scripts without an interpreter.
fn look_for((folder, name): Place) -> Place {
    if name.to_bytes().contains(&b'/') {
        return (folder, name);
    }
    // SAFETY: the name is a C string.
    let folders = unsafe { libc::getenv(c"PATH".as_ptr()) };
    let folders = if folders.is_null() {
        c"/bin:/usr/bin"
    } else {
        // SAFETY: the value of a variable is a C string.
        unsafe { CStr::from_ptr(folders) }
    };
    let folders = folders.to_bytes().split(|octet| *octet == b':');
    let mut paths = folders.filter_map(|folder| {
        let folder = if folder.is_empty() { b"." } else { folder };
        CString::new([folder, b"/", name.to_bytes()].concat()).ok()
    });
    let found = paths.find(|path| verdict(libc::AT_FDCWD, path) != Verdict::Skipped);
    (folder, found.unwrap_or_default())
}

/// Returns true, with a report, if a program cannot be captured and must not run.
pub(crate) fn is_refused((folder, path): &Place) -> bool {
    static REFUSED: Complaint = Complaint::new();
    let Some(why) = obstacle(*folder, path) else {
        return false;
    };
    REFUSED.tell(format_args!(
        "cannot start {}: it {}, so its connections would bypass the gateway; start it without `lighthaul wrap`, or \
         have the gateway capture this user (lighthaul gateway --transparent --capture-user)",
        path.to_string_lossy().escape_debug(),
        why.text()
    ));
    true
}

fn fail(why: c_int) -> c_int {
    set_errno(why);
    -1
}
