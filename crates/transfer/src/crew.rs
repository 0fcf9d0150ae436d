//! The threads of one transfer: the first that fails stops the others.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lighthaul_io::control::{Frame, Stream};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;

use crate::error::{Code, Error};

/// How often a thread that waits looks whether it is to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// What the threads of a transfer know of each other.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    stopped: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Crew {
    /// Stops all, for this reason unless there was one before.
    pub(crate) fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        // what somebody did or said explains a connection that ended, not the other way round
        let explains = |known: &Error| known.code == Code::Network && error.code != Code::Network;
        let better = failure.as_ref().is_none_or(explains) && error != stopped();
        if better {
            *failure = Some(error);
        }
        self.stopped.store(true, Relaxed);
    }

    /// Why it was stopped, if somebody failed.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Fails if somebody has failed, or asked to stop.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.stopped.load(Relaxed) {
            return Err(stopped());
        }
        Ok(interrupt::check()?)
    }

    /// Runs `work`, and stops all if it fails.
    pub(crate) fn run(&self, work: impl FnOnce() -> Result<(), Error>) {
        if let Err(error) = work() {
            // who was stopped has nothing to say of why
            if !self.stopped.load(Relaxed) {
                self.fail(error);
            }
        }
    }

    /// The next frame of `stream`, however long that takes.
    pub(crate) fn receive(&self, stream: &Stream, clock: Clock) -> Result<Frame, Error> {
        loop {
            self.check()?;
            match stream.receive(clock, clock.now() + LOOK) {
                Err(lighthaul_io::error::Error::TimedOut(_)) => {}
                frame => return Ok(frame?),
            }
        }
    }
}

/// What a thread answers that was stopped because another failed, which explains nothing.
fn stopped() -> Error {
    Error::new(Code::Interrupted, "another part of the transfer failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_stopped_does_not_hide_why() {
        let crew = Crew::default();
        let lost = Error::new(Code::Network, "the connection was lost");
        crew.fail(lost.clone());
        crew.fail(crew.check().unwrap_err());
        assert_eq!(crew.take_failure(), Some(lost.clone()));
        // what the peer said explains why it left
        let said = Error::new(Code::Io, "no space left");
        crew.fail(lost);
        crew.fail(said.clone());
        assert_eq!(crew.take_failure(), Some(said));
    }
}
