//! One direction of a session that is only streamed: its bytes go from socket to socket through a pipe, and stay in the kernel.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use socket2::Socket;

/// A pipe, and what is known of its two sockets.
#[derive(Debug)]
pub(crate) struct SplicePipe {
    mouth: OwnedFd,
    outlet: OwnedFd,
    /// Bytes in it.
    held: usize,
    /// The sockets may have something, and may have room.
    pub(crate) can_read: bool,
    pub(crate) can_write: bool,
    end: End,
}

/// How far what is said has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// All was read.
    Read,
    /// All was written, and the reader told that it was all.
    Told,
}

impl SplicePipe {
    /// A pipe with nothing in it.
    pub(crate) fn new() -> io::Result<Self> {
        let (outlet, mouth) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        // one that stays small is no slower on a path as short as these
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

    /// Whether all was said and heard.
    pub(crate) fn is_over(&self) -> bool {
        self.end == End::Told
    }

    /// Passes on what there is, for a turn; answers how many bytes, and whether there may be more.
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
            // a pipe that is full says the same as a socket that is empty
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
            self.end = End::Told;
            to.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

/// Moves at most so many bytes; nothing if there are none now, or no room.
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

/// What a pipe may hold.
const CAPACITY: usize = 1 << 20;
/// How often a pipe is filled and emptied before others have their turn.
const TURN: usize = 8;
