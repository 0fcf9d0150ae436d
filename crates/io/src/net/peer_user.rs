//! User at the other end of a Unix socket.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use super::sockopt;

/// Returns the user ID of the peer's process (`SO_PEERCRED`), or `None` if the socket is no Unix socket.
pub fn peer_user(stream: &UnixStream) -> Option<u32> {
    // process, user and group; the process is 0 if it is in another PID namespace
    let [_, user, _] = sockopt::words(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    Some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_of_a_pair_is_this_user() {
        let (one, _two) = UnixStream::pair().unwrap();
        // SAFETY: geteuid has no precondition.
        let own = unsafe { libc::geteuid() };
        assert_eq!(peer_user(&one), Some(own));
    }
}
