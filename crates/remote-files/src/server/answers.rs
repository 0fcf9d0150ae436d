//! Answers of one connection, which several threads send, and requests in progress.

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use lighthaul_io::control::{Frame, Stream};
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::topic::Topic;

use crate::failure::Failure;
use crate::message::{FileVersion, Message};
use crate::server::shared::Shared;

/// Longest wait until the client reads on.
const ROOM_TIMEOUT: Duration = Duration::from_mins(1);
/// Interval at which a waiting connection checks whether the session is halted.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Stream to the client, on which answers of several threads travel.
#[derive(Debug)]
pub(super) struct Answers {
    stream: Stream,
    clock: Clock,
}

impl Answers {
    /// Returns the answers on `stream`.
    pub(super) fn new(stream: Stream) -> Self {
        let clock = Clock::start();
        Self { stream, clock }
    }

    /// Sends an answer, once the client has read enough of the earlier answers.
    pub(super) fn say(&self, shared: &Shared<'_>, message: &Message) -> Result<(), Error> {
        self.send(shared, &Frame::message(message.encode()))
    }

    /// Sends a frame, once the client has read enough of the earlier frames.
    pub(super) fn send(&self, shared: &Shared<'_>, frame: &Frame) -> Result<(), Error> {
        let deadline = self.clock.now() + ROOM_TIMEOUT;
        while !self.stream.wait_for_room(CHECK_INTERVAL) {
            shared.check()?;
            if self.clock.now() > deadline {
                return Err(PeerFault::reported(
                    Code::TimedOut as u8,
                    "the client stopped reading the answers",
                )
                .into());
            }
        }
        Ok(self.stream.send(frame)?)
    }

    /// Sends the end of an answer.
    pub(super) fn end(
        &self,
        shared: &Shared<'_>,
        request: u64,
        result: Result<Option<FileVersion>, Failure>,
    ) -> Result<(), Error> {
        let message = match result {
            Ok(version) => Message::Done { request, version },
            Err(failure) => Message::Failed {
                request,
                kind: failure.kind,
                code: failure.code as u8,
                why: failure.text,
            },
        };
        self.say(shared, &message)
    }

    /// Waits for the next request.
    pub(super) fn next(&self, shared: &Shared<'_>) -> Result<Frame, Error> {
        let Self { stream, clock } = self;
        loop {
            if let Some(frame) = stream.try_receive()? {
                return Ok(frame);
            }
            shared.check()?;
            let mut watches = [Watch::read(stream.as_raw_fd())];
            let waited = wait(*clock, &mut watches, clock.now() + CHECK_INTERVAL);
            waited.map_err(|error| World::world("cannot wait for the client", error))?;
            stream.woken();
        }
    }
}

/// Returns the path in a message.
pub(super) fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}
