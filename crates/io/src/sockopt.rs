//! Options of sockets that are one integer.

use std::io;
use std::os::fd::RawFd;

/// Sets an integer option of a socket.
pub(crate) fn set(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: value is one readable int.
    let status = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an integer option of a socket.
pub(crate) fn get(fd: RawFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: value is one writable int, and len says so.
    let status =
        unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    if status == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Bytes that wait in a socket, and how many it holds, as the kernel counts them.
pub(crate) fn socket_memory(fd: RawFd) -> Option<(u64, u64)> {
    let mut words = [0_u32; 9];
    let mut len = size_of_val(&words) as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MEMINFO);
    // SAFETY: words are writable, and len says how many octets they have.
    let status =
        unsafe { libc::getsockopt(fd, level, name, words.as_mut_ptr().cast(), &raw mut len) };
    // SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF
    (status == 0).then(|| (words[0].into(), words[1].into()))
}
