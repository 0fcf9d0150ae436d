//! Threads that read and write frames at pipes, so that the network never waits for a pipe.
//!
//! A queue of frames, bounded by bytes, lies between such a thread and the network. The thread ends
//! when the transfer drops its end of the queue. It ends even if the process at the other end of
//! the pipe neither reads nor writes.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Waker, Watch, wait};
use lighthaul_session::error::{Error, caught};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::error::Fault;
use crate::frame_queue::{FrameQueue, NotPushed, Popped};
use crate::frames::{Cutter, Frames};

/// Frame, and the time at which it was read.
pub type Frame = (Vec<u8>, Instant);

/// Frames that a thread reads from a pipe.
#[derive(Debug)]
pub struct Intake {
    frames: FrameQueue<Result<Frame, Error>>,
    waker: Waker,
}

impl Intake {
    /// Starts to read frames of at most `len_max` bytes from `file`, at most `ahead` bytes ahead.
    pub fn start(
        file: File,
        frames: Frames,
        len_max: usize,
        ahead: usize,
        clock: Clock,
    ) -> Result<Self, Error> {
        let queue = FrameQueue::new(ahead);
        let waker = Waker::new().map_err(Fault::Read)?;
        let reader = Reader {
            file,
            cutter: Cutter::new(frames, len_max),
            len_max,
            frames: queue.clone(),
            waker: waker.clone(),
            clock,
        };
        let thread = thread::Builder::new().name("stream in".into());
        thread.spawn(move || reader.run()).map_err(Fault::Read)?;
        Ok(Self {
            frames: queue,
            waker,
        })
    }

    /// Returns a descriptor that becomes readable when a frame may be available.
    pub fn waker(&self) -> RawFd {
        self.waker.as_raw_fd()
    }

    /// Returns the next frame if one is available, or the end.
    pub fn next(&self) -> Result<Option<Next>, Error> {
        self.wait(Duration::ZERO)
    }

    /// Clears the descriptor after a wait. Must be called before reading frames.
    pub fn look(&self) {
        self.waker.lower();
    }

    /// Returns the next frame or the end, after a wait of up to `patience`.
    pub fn wait(&self, patience: Duration) -> Result<Option<Next>, Error> {
        match self.frames.pop(patience) {
            Popped::Frame(frame) => frame.map(|frame| Some(Next::Frame(frame))),
            Popped::End => Ok(Some(Next::End)),
            Popped::Empty => Ok(None),
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.frames.abandon();
    }
}

/// Next item of a pipe.
#[derive(Debug)]
pub enum Next {
    /// Frame.
    Frame(Frame),
    /// No more frames.
    End,
}

struct Reader {
    file: File,
    cutter: Cutter,
    len_max: usize,
    frames: FrameQueue<Result<Frame, Error>>,
    waker: Waker,
    clock: Clock,
}

impl Reader {
    fn run(mut self) {
        if let Err(error) = caught("reader of the stream", || self.read()) {
            self.push(Err(error), 0);
        } else if let Some(frame) = self.cutter.last() {
            let len = frame.len();
            self.push(Ok((frame, self.clock.now())), len);
        }
        self.frames.close();
        self.waker.raise();
    }

    fn read(&mut self) -> Result<(), Error> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let mut watches = [Watch::read(self.file.as_raw_fd())];
            wait(self.clock, &mut watches, self.clock.now() + LOOK).map_err(Fault::Read)?;
            if !watches[0].readable {
                if self.frames.is_closed() {
                    return Ok(());
                }
                continue;
            }
            let len = match self.file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Fault::Read(error).into()),
            };
            let now = self.clock.now();
            self.cutter.push(&buffer[..len]);
            loop {
                let frame = self.cutter.cut().map_err(|long| Fault::FrameTooLong {
                    len: long.0,
                    max: self.len_max,
                })?;
                let Some(frame) = frame else { break };
                let frame = frame.to_vec();
                let len = frame.len();
                if !self.push(Ok((frame, now)), len) {
                    return Ok(());
                }
            }
        }
    }

    /// Queues a frame once there is room; returns false if the transfer has ended.
    fn push(&self, mut frame: Result<Frame, Error>, len: usize) -> bool {
        loop {
            match self.frames.push(frame, len, LOOK) {
                Ok(()) => {
                    self.waker.raise();
                    return true;
                }
                Err(NotPushed::Closed) => return false,
                Err(NotPushed::Full(back)) => frame = back,
            }
        }
    }
}

/// Frames that a thread writes to a pipe.
#[derive(Debug)]
pub struct Outlet {
    frames: FrameQueue<Vec<u8>>,
    is_abandoned: Arc<AtomicBool>,
    writer: Option<JoinHandle<Result<(), Error>>>,
}

impl Outlet {
    /// Starts to write frames to `file`. At most `ahead` bytes wait.
    pub fn start(file: File, frames: Frames, ahead: usize, clock: Clock) -> Result<Self, Error> {
        let queue = FrameQueue::new(ahead);
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let pipe = Pipe {
            file: unblocked(file),
            clock,
            is_abandoned: Arc::clone(&is_abandoned),
        };
        let waiting = queue.clone();
        let thread = thread::Builder::new().name("stream out".into());
        let writer = thread.spawn(move || {
            let written = caught("writer of the stream", || {
                Ok(write(pipe, frames, &waiting).map_err(Fault::Write)?)
            });
            // wakes a transfer that waits for room
            waiting.abandon();
            written
        });
        Ok(Self {
            frames: queue,
            is_abandoned,
            writer: Some(writer.map_err(Fault::Write)?),
        })
    }

    /// Queues a frame. Returns false if there is no room.
    pub fn offer(&self, frame: Vec<u8>) -> Result<bool, Error> {
        let len = frame.len();
        match self.frames.push(frame, len, Duration::ZERO) {
            Ok(()) => Ok(true),
            Err(NotPushed::Full(_)) => Ok(false),
            Err(NotPushed::Closed) => Err(Fault::ReaderGone.into()),
        }
    }

    /// Queues a frame, and waits for room while `check` succeeds.
    pub fn push(
        &self,
        mut frame: Vec<u8>,
        check: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let len = frame.len();
        loop {
            match self.frames.push(frame, len, LOOK) {
                Ok(()) => return Ok(()),
                Err(NotPushed::Closed) => return Err(Fault::ReaderGone.into()),
                Err(NotPushed::Full(back)) => frame = back,
            }
            check()?;
        }
    }

    /// Waits until all frames are written, while `check` succeeds.
    pub fn finish(mut self, check: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
        self.frames.close();
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        // the writer abandons the queue at its end
        while !self.frames.is_abandoned_within(LOOK) {
            check()?;
        }
        writer
            .join()
            .unwrap_or_else(|_| Err(Fault::ReaderGone.into()))
    }
}

impl Drop for Outlet {
    /// Drops frames that were not read, so that the thread ends.
    fn drop(&mut self) {
        self.is_abandoned.store(true, Relaxed);
        self.frames.abandon();
    }
}

fn write(pipe: Pipe, frames: Frames, waiting: &FrameQueue<Vec<u8>>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, pipe);
    loop {
        match waiting.pop(Duration::ZERO) {
            Popped::Frame(frame) => frames.write(&frame, &mut out)?,
            Popped::End => return out.flush(),
            Popped::Empty => {
                // the reader gets all frames before this thread waits
                out.flush()?;
                match waiting.pop(LOOK) {
                    Popped::Frame(frame) => frames.write(&frame, &mut out)?,
                    Popped::End => return Ok(()),
                    Popped::Empty => {}
                }
            }
        }
    }
}

/// Pipe or file that is written until the transfer ends.
struct Pipe {
    file: File,
    clock: Clock,
    is_abandoned: Arc<AtomicBool>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if self.is_abandoned.load(Relaxed) {
                return Err(io::Error::other("the stream has ended"));
            }
            match self.file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut watches = [Watch {
                        write: true,
                        ..Watch::read(self.file.as_raw_fd())
                    }];
                    wait(self.clock, &mut watches, self.clock.now() + LOOK)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens the same pipe in non-blocking mode. Other processes may share the old descriptor, and do
/// not expect that mode. Files and devices are returned unchanged.
fn unblocked(file: File) -> File {
    let is_pipe = fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_fifo());
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = is_pipe.then(|| open(path, flags, Mode::empty()));
    opened.and_then(Result::ok).map_or(file, File::from)
}

/// Octets of one read.
const BUFFER: usize = 256 << 10;
/// Interval at which a waiting reader checks whether the transfer has ended.
const LOOK: Duration = Duration::from_millis(100);
