//! One direction of a spliced session: bytes go from socket to socket through a pipe, within the kernel.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
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
        let Some(count) = transfer(from, &self.mouth, CAPACITY - self.held)? else {
            // a full pipe and an empty socket give the same error
            self.can_read = self.held > 0;
            return Ok(0);
        };
        if count == 0 {
            self.end = End::Read;
        }
        self.held += count;
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
