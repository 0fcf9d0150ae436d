//! One direction of a spliced session: bytes go from socket to socket through a pipe, within the kernel.
//!
//! splice(2) stops at TCP urgent data. It reports them like an empty socket, or like the end of the stream. So a read
//! takes the bytes there, and only an empty read is the end.

use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, write};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use socket2::Socket;

/// Pipe between two sockets.
#[derive(Debug)]
pub(crate) struct SplicePipe {
    mouth: OwnedFd,
    outlet: OwnedFd,
    /// Bytes in the pipe.
    held: usize,
    /// True if the source may have data.
    pub(crate) can_read: bool,
    /// True if the destination may take data.
    pub(crate) can_write: bool,
    end: End,
}

/// State of the end of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// The source has reached its end.
    Read,
    /// All bytes are written, and the destination has seen the end.
    Forwarded,
}

impl SplicePipe {
    /// Creates an empty pipe.
    pub(crate) fn new() -> io::Result<Self> {
        let (outlet, mouth) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        // a pipe with the default size works too, and is hardly slower on a short path
        fcntl_setpipe_size(&mouth, CAPACITY).ok();
        Ok(Self {
            mouth,
            outlet,
            held: 0,
            can_read: true,
            can_write: true,
            end: End::Open,
        })
    }

    /// Returns true if the destination has seen the end.
    pub(crate) fn is_over(&self) -> bool {
        self.end == End::Forwarded
    }

    /// Passes bytes for one turn. Returns their number, and true if there may be more.
    pub(crate) fn pass(&mut self, from: &Socket, to: &Socket) -> io::Result<(u64, bool)> {
        let mut total = 0;
        for _ in 0..TURN {
            let (came, went) = (self.fill(from)?, self.empty(to)?);
            total += went as u64;
            if came + went == 0 {
                self.finish(to)?;
                return Ok((total, false));
            }
        }
        Ok((total, true))
    }

    fn fill(&mut self, from: &Socket) -> io::Result<usize> {
        if !self.can_read || self.end != End::Open || self.held >= CAPACITY {
            return Ok(0);
        }
        let mut count = transfer(from, &self.mouth, CAPACITY - self.held)?.unwrap_or(0);
        // a full pipe gives the same error as an empty socket and as urgent data
        if count == 0 && self.held == 0 {
            count = self.fill_past_mark(from)?;
        }
        self.held += count;
        Ok(count)
    }

    /// Copies bytes to the empty pipe where splice(2) stops. Notes an empty socket, or the end of the stream.
    fn fill_past_mark(&mut self, mut from: &Socket) -> io::Result<usize> {
        let mut bytes = [0; PIPE_BUF];
        let count = match from.read(&mut bytes) {
            Ok(0) => {
                self.end = End::Read;
                return Ok(0);
            }
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.can_read = false;
                return Ok(0);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(error),
        };
        // an empty pipe takes these bytes at once
        write(&self.mouth, &bytes[..count]).map_err(io::Error::from)?;
        Ok(count)
    }

    fn empty(&mut self, to: &Socket) -> io::Result<usize> {
        if !self.can_write || self.held == 0 {
            return Ok(0);
        }
        let Some(count) = transfer(&self.outlet, to, self.held)? else {
            self.can_write = false;
            return Ok(0);
        };
        self.held -= count;
        Ok(count)
    }

    fn finish(&mut self, to: &Socket) -> io::Result<()> {
        if self.end == End::Read && self.held == 0 {
            self.end = End::Forwarded;
            to.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

/// Moves at most `most` bytes. Returns nothing if there are none now, or no room.
fn transfer(from: &impl AsFd, to: &impl AsFd, most: usize) -> io::Result<Option<usize>> {
    loop {
        match splice(
            from,
            None,
            to,
            None,
            most,
            SpliceFlags::NONBLOCK | SpliceFlags::MOVE,
        ) {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Capacity of a pipe.
const CAPACITY: usize = 1 << 20;
/// Maximum number of times that a pipe is filled and emptied in a turn.
const TURN: usize = 8;
/// Number of bytes that an empty pipe always takes in one write.
const PIPE_BUF: usize = 4096;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lighthaul_io::net::tcp::listen;
    use socket2::{Domain, Type};

    use super::*;

    /// Returns both ends of a TCP connection. The second one does not block.
    fn connection() -> (Socket, Socket) {
        let listener = Socket::from(listen("127.0.0.1:0".parse().unwrap()).unwrap());
        let caller = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        caller.connect(&listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        accepted.set_out_of_band_inline(true).unwrap();
        (caller, accepted)
    }

    /// Passes bytes until the end of the stream.
    fn pass_all(pipe: &mut SplicePipe, from: &Socket, to: &Socket) -> u64 {
        let mut total = 0;
        for _ in 0..10_000 {
            (pipe.can_read, pipe.can_write) = (true, true);
            total += pipe.pass(from, to).unwrap().0;
            if pipe.is_over() {
                return total;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        panic!("the stream does not end after {total} bytes");
    }

    #[test]
    fn urgent_data_is_passed_in_order() {
        let ((mut program, from), (to, mut target)) = (connection(), connection());
        to.set_nonblocking(true).unwrap();
        target.set_nonblocking(false).unwrap();
        let mut pipe = SplicePipe::new().unwrap();
        program.write_all(b"hello").unwrap();
        program.send_out_of_band(b"!").unwrap();
        // the mark may be reached before and after the end
        pipe.pass(&from, &to).unwrap();
        program.write_all(b"world").unwrap();
        program.send_out_of_band(b"?").unwrap();
        program.shutdown(Shutdown::Write).unwrap();
        pass_all(&mut pipe, &from, &to);
        let mut heard = Vec::new();
        target.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"hello!world?");
    }

    #[test]
    fn bytes_beyond_the_capacity_of_the_pipe_are_passed() {
        let ((mut program, from), (to, mut target)) = (connection(), connection());
        to.set_nonblocking(true).unwrap();
        target.set_nonblocking(false).unwrap();
        let sent: Vec<u8> = (0..3 * CAPACITY).map(|nth| (nth % 251) as u8).collect();
        let heard = std::thread::scope(|scope| {
            scope.spawn(|| {
                program.write_all(&sent).unwrap();
                program.shutdown(Shutdown::Write).unwrap();
            });
            let heard = scope.spawn(move || {
                let mut heard = Vec::new();
                target.read_to_end(&mut heard).unwrap();
                heard
            });
            let mut pipe = SplicePipe::new().unwrap();
            assert_eq!(pass_all(&mut pipe, &from, &to), sent.len() as u64);
            heard.join().unwrap()
        });
        assert!(heard == sent);
    }
}
