//! Which programs cannot be captured, by what their files say: the dynamic linker loads no library into them.

use std::ffi::{CStr, CString, c_void};
use std::mem::zeroed;

use libc::c_int;

/// Reason why a program cannot be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obstacle {
    /// No dynamic linker starts it.
    Static,
    /// It runs with the rights of another user or group.
    ForeignRights,
    /// Its dynamic linker takes libraries of another architecture.
    OtherArchitecture,
    /// It may be run but not read.
    Unreadable,
}

impl Obstacle {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Static => "is linked statically",
            Self::ForeignRights => "runs with the rights of another user",
            Self::OtherArchitecture => "is of another architecture than this library",
            Self::Unreadable => "cannot be read, so nobody knows how it is linked",
        }
    }
}

/// Looks at the program at `path`, relative to `folder`, and at what runs it if it is a script; nothing if it can be captured,
/// or if the kernel will refuse it.
pub(crate) fn obstacle(folder: c_int, path: &CStr) -> Option<Obstacle> {
    let (mut folder, mut path) = (folder, path.to_owned());
    for _ in 0..SCRIPTS_MAX {
        if foreign_rights(folder, &path)? {
            return Some(Obstacle::ForeignRights);
        }
        let Some(head) = read_head(folder, &path) else {
            return may_run(folder, &path).then_some(Obstacle::Unreadable);
        };
        match interpreter(&head) {
            Some(next) => (folder, path) = (libc::AT_FDCWD, next),
            None => return of_elf(&head),
        }
    }
    None
}

/// Reads the beginning of a file; nothing if it cannot be opened.
fn read_head(folder: c_int, path: &CStr) -> Option<Vec<u8>> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path is a string of C.
    let fd = unsafe { libc::openat(folder, path.as_ptr(), flags) };
    if fd < 0 {
        return None;
    }
    let mut head = vec![0_u8; HEAD];
    // SAFETY: there is room for that many octets.
    let len = unsafe { libc::read(fd, head.as_mut_ptr().cast::<c_void>(), head.len()) };
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(fd) };
    head.truncate(usize::try_from(len).unwrap_or(0));
    Some(head)
}

/// True if this user may run the file.
fn may_run(folder: c_int, path: &CStr) -> bool {
    // SAFETY: the path is a string of C.
    unsafe { libc::faccessat(folder, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0 }
}

/// True if the program runs with rights that its caller does not have; nothing if there is no such file.
fn foreign_rights(folder: c_int, path: &CStr) -> Option<bool> {
    // SAFETY: zeros are a status.
    let mut status: libc::stat = unsafe { zeroed() };
    // SAFETY: the path is a string of C, and the status can be written.
    if unsafe { libc::fstatat(folder, path.as_ptr(), &raw mut status, 0) } != 0 {
        return None;
    }
    // SAFETY: it takes nothing.
    let user = unsafe { libc::getuid() };
    // SAFETY: it takes nothing.
    let group = unsafe { libc::getgid() };
    let is_user = status.st_mode & libc::S_ISUID != 0 && status.st_uid != user;
    let is_group = status.st_mode & libc::S_ISGID != 0 && status.st_gid != group;
    let name = c"security.capability";
    // SAFETY: both are strings of C, and nothing is written where there is no room.
    let capabilities =
        unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    Some(is_user || is_group || (user != 0 && capabilities > 0))
}

/// The program that runs a script (execve(2)).
fn interpreter(head: &[u8]) -> Option<CString> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|octet| *octet == b'\n').next()?;
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    CString::new(word).ok().filter(|word| !word.is_empty())
}

/// Properties of an ELF executable, see elf(5).
fn of_elf(head: &[u8]) -> Option<Obstacle> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let is_wide = head.get(4) == Some(&2);
    let octet = |at: usize| head.get(at).copied().unwrap_or_default();
    let own = (size_of::<usize>() == 8, cfg!(target_endian = "little"));
    if (is_wide, octet(5) == 1) != own {
        return Some(Obstacle::OtherArchitecture);
    }
    let short = |at: usize| usize::from(u16::from_ne_bytes([octet(at), octet(at + 1)]));
    let (offset, size, count) = if is_wide {
        (word(head, 32), short(54), short(56))
    } else {
        (word(head, 28), short(42), short(44))
    };
    let types = (0..count).map(|nth| word(head, offset + nth * size));
    let has_interpreter = { types }.any(|kind| kind == PT_INTERP);
    (!has_interpreter).then_some(Obstacle::Static)
}

/// A number of four octets; offsets that need more lie beyond what was read.
fn word(head: &[u8], at: usize) -> usize {
    let octets = head.get(at..at.saturating_add(4));
    octets
        .and_then(|octets| octets.try_into().ok())
        .map_or(0, u32::from_ne_bytes) as usize
}

/// As many lines of `#!` as the kernel follows.
const SCRIPTS_MAX: usize = 5;
/// Long enough for the program headers, which linkers put first, and for a line of `#!`.
const HEAD: usize = 4096;
const PT_INTERP: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_and_dynamic_programs_are_distinguished() {
        let mut head = vec![0; 64 + 2 * 56];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (head[32], head[54], head[56]) = (64, 56, 2);
        assert_eq!(of_elf(&head), Some(Obstacle::Static));
        head[64 + 56] = 3;
        assert_eq!(of_elf(&head), None);
        head[4] = 1;
        assert_eq!(of_elf(&head), Some(Obstacle::OtherArchitecture));
        assert_eq!(of_elf(b"#!/bin/sh\n"), None);
        assert_eq!(
            of_elf(b"\x7fELF\x02\x01"),
            Some(Obstacle::Static),
            "cut short"
        );
        assert_eq!(obstacle(libc::AT_FDCWD, c"/proc/self/exe"), None);
        assert_eq!(obstacle(libc::AT_FDCWD, c"/no/such/program"), None);
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
