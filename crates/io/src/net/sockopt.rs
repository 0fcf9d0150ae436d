//! Integer options of sockets.

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
    // SAFETY: value is one writable int, and len is its size.
    let status =
        unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    if status == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads the first `N` words of an option. Returns `None` if an older kernel has fewer.
pub(crate) fn words<const N: usize>(fd: RawFd, level: i32, name: i32) -> Option<[u32; N]> {
    let mut words = [0; N];
    let mut len = size_of_val(&words) as libc::socklen_t;
    // SAFETY: words are writable, and len is their size in octets.
    let status =
        unsafe { libc::getsockopt(fd, level, name, words.as_mut_ptr().cast(), &raw mut len) };
    (status == 0 && len as usize == size_of_val(&words)).then_some(words)
}

/// Returns the bytes that wait in a socket's receive buffer, and the buffer's size, as the kernel counts them.
pub(crate) fn socket_memory(fd: RawFd) -> Option<(u64, u64)> {
    // SK_MEMINFO_RMEM_ALLOC and SK_MEMINFO_RCVBUF
    let [waiting, holds] = words(fd, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    Some((waiting.into(), holds.into()))
}
