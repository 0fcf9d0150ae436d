//! The threads that read frames from a pipe and write them to one, so that nothing on the wire waits for either.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::clock::Clock;
use lighthaul_io::wait::{Sign, Watch, wait};

use super::frames::{Cutter, Frames};
use crate::error::{Code, Error};

/// A frame, and when it was read.
pub type Frame = (Vec<u8>, Instant);

/// Frames as they are read from a pipe.
#[derive(Debug)]
pub struct Intake {
    frames: Receiver<Result<Frame, Error>>,
    sign: Sign,
    stop: Arc<AtomicBool>,
}

impl Intake {
    /// Reads frames of at most `len_max` octets from `file`, at most `ahead` of them ahead.
    pub fn start(
        file: File,
        frames: Frames,
        len_max: usize,
        ahead: usize,
        clock: Clock,
    ) -> Result<Self, Error> {
        let (told, heard) = sync_channel(ahead);
        let sign = Sign::new().map_err(|e| failed("reading", &e))?;
        let stop = Arc::new(AtomicBool::new(false));
        let reader = Reader {
            file,
            cutter: Cutter::new(frames, len_max),
            len_max,
            told,
            sign: sign.clone(),
            stop: Arc::clone(&stop),
            clock,
        };
        let thread = thread::Builder::new().name("stream in".into());
        thread
            .spawn(move || reader.run())
            .map_err(|e| failed("reading", &e))?;
        Ok(Self {
            frames: heard,
            sign,
            stop,
        })
    }

    /// What becomes readable when there may be a frame.
    pub fn sign(&self) -> RawFd {
        self.sign.as_raw_fd()
    }

    /// The next frame that is there: nothing in it once there will be none.
    pub fn next(&self) -> Result<Option<Next>, Error> {
        match self.frames.try_recv() {
            Ok(frame) => frame.map(|frame| Some(Next::Frame(frame))),
            Err(TryRecvError::Disconnected) => Ok(Some(Next::End)),
            Err(TryRecvError::Empty) => Ok(None),
        }
    }

    /// Takes the sign down before looking.
    pub fn look(&self) {
        self.sign.lower();
    }

    /// The same as [`Intake::next`], and waits for it.
    pub fn wait(&self, patience: Duration) -> Result<Option<Next>, Error> {
        match self.frames.recv_timeout(patience) {
            Ok(frame) => frame.map(|frame| Some(Next::Frame(frame))),
            Err(RecvTimeoutError::Disconnected) => Ok(Some(Next::End)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// What a pipe has next.
#[derive(Debug)]
pub enum Next {
    /// A frame.
    Frame(Frame),
    /// No more frames.
    End,
}

struct Reader {
    file: File,
    cutter: Cutter,
    len_max: usize,
    told: SyncSender<Result<Frame, Error>>,
    sign: Sign,
    stop: Arc<AtomicBool>,
    clock: Clock,
}

impl Reader {
    fn run(mut self) {
        let ended = self.read();
        if let Err(error) = ended {
            self.told.send(Err(error)).ok();
        } else if let Some(frame) = self.cutter.last() {
            self.told.send(Ok((frame, self.clock.now()))).ok();
        }
        drop(self.told);
        self.sign.raise();
    }

    fn read(&mut self) -> Result<(), Error> {
        let mut buffer = vec![0; BUFFER];
        while !self.stop.load(Relaxed) {
            let mut watches = [Watch::read(self.file.as_raw_fd())];
            wait(self.clock, &mut watches, self.clock.now() + LOOK)
                .map_err(|e| failed("reading", &e))?;
            if !watches[0].readable {
                continue;
            }
            let len = match self.file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed("reading", &error)),
            };
            let now = self.clock.now();
            self.cutter.push(&buffer[..len]);
            loop {
                let frame = self
                    .cutter
                    .cut()
                    .map_err(|long| too_long(long.0, self.len_max))?;
                let Some(frame) = frame else { break };
                if self.told.send(Ok((frame.to_vec(), now))).is_err() {
                    return Ok(());
                }
                self.sign.raise();
            }
        }
        Ok(())
    }
}

/// Frames on their way into a pipe.
#[derive(Debug)]
pub struct Outlet {
    frames: SyncSender<Vec<u8>>,
    writer: JoinHandle<Result<(), Error>>,
}

impl Outlet {
    /// Writes frames to `file`, of which at most `ahead` wait.
    pub fn start(file: File, frames: Frames, ahead: usize) -> Result<Self, Error> {
        let (told, heard) = sync_channel::<Vec<u8>>(ahead);
        let thread = thread::Builder::new().name("stream out".into());
        let writer = thread
            .spawn(move || write(file, frames, &heard).map_err(|e| failed("writing", &e)))
            .map_err(|e| failed("writing", &e))?;
        Ok(Self {
            frames: told,
            writer,
        })
    }

    /// Hands a frame over; `false` if those before it still wait.
    pub fn offer(&self, frame: Vec<u8>) -> Result<bool, Error> {
        match self.frames.try_send(frame) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => Err(gone()),
        }
    }

    /// Hands a frame over, once there is room for it.
    pub fn push(&self, frame: Vec<u8>) -> Result<(), Error> {
        self.frames.send(frame).map_err(|_| gone())
    }

    /// Waits until all is written.
    pub fn finish(self) -> Result<(), Error> {
        drop(self.frames);
        self.writer.join().unwrap_or_else(|_| Err(gone()))
    }
}

fn write(file: File, frames: Frames, heard: &Receiver<Vec<u8>>) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, file);
    while let Ok(frame) = heard.recv() {
        frames.write(&frame, &mut out)?;
        // who reads gets all that is there before we wait for more
        while let Ok(frame) = heard.try_recv() {
            frames.write(&frame, &mut out)?;
        }
        out.flush()?;
    }
    Ok(())
}

fn too_long(len: usize, len_max: usize) -> Error {
    let text = format!(
        "a message or object of {len} bytes or more is longer than the {len_max} that one may have here"
    );
    Error::new(Code::Usage, text)
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("{what} the stream failed: {error}"))
}

fn gone() -> Error {
    Error::new(Code::Io, "nobody takes the stream any more")
}

/// Octets read at once.
const BUFFER: usize = 256 << 10;
/// How often a reader that waits looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);
