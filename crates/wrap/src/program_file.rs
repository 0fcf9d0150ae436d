//! Detection of programs that cannot be captured, since the dynamic linker loads no library into them.

use std::ffi::CStr;
use std::fs::File;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use libc::c_int;

use crate::elf::Elf;
use crate::script::interpreter;

/// Reason why a program cannot be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obstacle {
    /// The program starts without a dynamic linker.
    Static,
    /// The program is written in Go, which makes system calls without libc.
    Go,
    /// The program runs with the rights of another user or group.
    ForeignRights,
    /// The dynamic linker of the program loads libraries of another architecture.
    OtherArchitecture,
    /// The program may be run but not read.
    Unreadable,
}

impl Obstacle {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Static => "is linked statically",
            Self::Go => "is written in Go, which connects without libc",
            Self::ForeignRights => "runs with the rights of another user",
            Self::OtherArchitecture => "is of another architecture than this library",
            Self::Unreadable => "is unreadable, so its linking cannot be checked",
        }
    }
}

/// Result of the examination of a file that is to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The kernel will not execute it: it is missing, a directory, or without permission, or its interpreter is. A
    /// search in `PATH` continues behind it.
    Skipped,
    /// A program that can be captured.
    Captured,
    /// A program that cannot be captured.
    Refused(Obstacle),
}

/// Returns the reason why the program at `path`, relative to `folder`, cannot be captured. Returns `None` if it can be,
/// or if the kernel will refuse it.
pub(crate) fn obstacle(folder: c_int, path: &CStr) -> Option<Obstacle> {
    match verdict(folder, path) {
        Verdict::Refused(why) => Some(why),
        Verdict::Skipped | Verdict::Captured => None,
    }
}

/// Examines the program at `path`, relative to `folder`, and the interpreter of a script.
pub(crate) fn verdict(folder: c_int, path: &CStr) -> Verdict {
    let (mut folder, mut path) = (folder, path.to_owned());
    for _ in 0..SCRIPTS_MAX {
        if !may_run(folder, &path) {
            return Verdict::Skipped;
        }
        let file = open(folder, &path);
        let status = match &file {
            Some(file) => status_of(file),
            None => status_at(folder, &path),
        };
        let Some(status) = status.filter(|status| status.st_mode & libc::S_IFMT == libc::S_IFREG)
        else {
            return Verdict::Skipped;
        };
        if has_foreign_rights(&status) || file.as_ref().is_some_and(has_foreign_capabilities) {
            return Verdict::Refused(Obstacle::ForeignRights);
        }
        let Some(file) = file else {
            return Verdict::Refused(Obstacle::Unreadable);
        };
        match interpreter(&part(&file, 0, LINE)) {
            Some(next) => (folder, path) = (libc::AT_FDCWD, next),
            None => return of_elf(&file).map_or(Verdict::Captured, Verdict::Refused),
        }
    }
    Verdict::Skipped
}

/// Opens a file. Returns `None` if it cannot be read.
fn open(folder: c_int, path: &CStr) -> Option<File> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path is a C string.
    let fd = unsafe { libc::openat(folder, path.as_ptr(), flags) };
    // SAFETY: the descriptor is ours.
    (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
}

/// Returns true if this user may execute the file.
fn may_run(folder: c_int, path: &CStr) -> bool {
    // SAFETY: the path is a C string.
    unsafe { libc::faccessat(folder, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0 }
}

/// Returns the status of the file at `path`, relative to `folder`, if it exists.
fn status_at(folder: c_int, path: &CStr) -> Option<libc::stat> {
    // SAFETY: all zeros are a valid status.
    let mut status: libc::stat = unsafe { zeroed() };
    // SAFETY: the path is a C string, and the status can be written.
    let found = unsafe { libc::fstatat(folder, path.as_ptr(), &raw mut status, 0) };
    (found == 0).then_some(status)
}

/// Returns the status of an open file.
fn status_of(file: &File) -> Option<libc::stat> {
    // SAFETY: all zeros are a valid status.
    let mut status: libc::stat = unsafe { zeroed() };
    // SAFETY: the descriptor is open, and the status can be written.
    let found = unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) };
    (found == 0).then_some(status)
}

/// Returns true if a program with this status runs as a user or group that its caller is not.
fn has_foreign_rights(status: &libc::stat) -> bool {
    // SAFETY: the call has no arguments.
    let user = unsafe { libc::getuid() };
    // SAFETY: the call has no arguments.
    let group = unsafe { libc::getgid() };
    let is_user = status.st_mode & libc::S_ISUID != 0 && status.st_uid != user;
    let is_group = status.st_mode & libc::S_ISGID != 0 && status.st_gid != group;
    is_user || is_group
}

/// Returns true if a program has capabilities that its caller lacks.
fn has_foreign_capabilities(file: &File) -> bool {
    let name = c"security.capability";
    // SAFETY: the descriptor is open, the name is a C string, and a buffer of length zero is not written.
    let len = unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), std::ptr::null_mut(), 0) };
    // SAFETY: the call has no arguments.
    len > 0 && unsafe { libc::getuid() } != 0
}

/// Properties of an ELF executable, see elf(5).
fn of_elf(file: &File) -> Option<Obstacle> {
    let elf = Elf::read(&|at, len| part(file, at, len))?;
    if !elf.is_own_kind {
        Some(Obstacle::OtherArchitecture)
    } else if !elf.has_interpreter {
        Some(Obstacle::Static)
    } else if elf.is_go {
        Some(Obstacle::Go)
    } else {
        None
    }
}

/// Reads at most `len` octets of a file at an offset.
fn part(file: &File, at: u64, len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    let len = file.read_at(&mut octets, at).unwrap_or(0);
    octets.truncate(len);
    octets
}

/// Maximum number of nested interpreters that the kernel follows.
const SCRIPTS_MAX: usize = 5;
/// Maximum length of a `#!` line that the kernel reads.
const LINE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_this_host_can_be_captured() {
        assert_eq!(obstacle(libc::AT_FDCWD, c"/proc/self/exe"), None);
        assert_eq!(obstacle(libc::AT_FDCWD, c"/bin/sh"), None);
        for missing in [
            c"/no/such/program",
            c"/usr/bin",
            c"/etc/passwd",
            c"/dev/null",
        ] {
            assert_eq!(
                verdict(libc::AT_FDCWD, missing),
                Verdict::Skipped,
                "{missing:?}"
            );
        }
    }

    #[test]
    fn interpreter_of_a_script_is_found() {
        for (head, name) in [
            (&b"#!/bin/sh\n"[..], Some(c"/bin/sh")),
            (b"#! /usr/bin/env  python3\nx", Some(c"/usr/bin/env")),
            (b"#!\n", None),
            (b"x#!/bin/sh", None),
        ] {
            assert_eq!(interpreter(head).as_deref(), name);
        }
    }
}
