//! Group of the threads of a transfer. The first failure stops all of them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lighthaul_io::control::{Frame, Stream};
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error, caught};

use crate::error::Fault;
use crate::work::Work;

/// Interval at which a waiting thread checks whether it must stop.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// State that the threads of a transfer share.
#[derive(Debug)]
pub struct ThreadGroup {
    stopped: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// Counter of the work of this side.
    pub work: Arc<Work>,
    /// Request to stop the transfer.
    cancellation: Cancellation,
    #[cfg(feature = "broken-parts")]
    broken: crate::broken_part::BrokenPart,
}

impl Default for ThreadGroup {
    /// Creates a group that stops when the work of the current thread is cancelled.
    fn default() -> Self {
        Self {
            stopped: AtomicBool::default(),
            failure: Mutex::default(),
            work: Arc::default(),
            cancellation: Cancellation::current(),
            #[cfg(feature = "broken-parts")]
            broken: crate::broken_part::BrokenPart::default(),
        }
    }
}

impl ThreadGroup {
    /// Stops all threads with `error`, unless another error has stopped them before.
    pub fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        // an error of a file or of the peer explains a lost connection, but not the reverse
        let explains =
            |known: &Error| known.code() == Code::Network && error.code() != Code::Network;
        // a thread that was only stopped does not know the reason
        let is_stopped = error.code() == Code::Interrupted && interrupt::check().is_ok();
        let better = match failure.as_ref() {
            Some(known) => explains(known) && !is_stopped,
            None => true,
        };
        if better {
            *failure = Some(error);
        }
        self.stopped.store(true, Relaxed);
    }

    /// Takes the error that stopped the threads, if any.
    pub fn take_failure(&self) -> Option<Error> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Fails if a thread has failed, or the user has interrupted the command.
    pub fn check(&self) -> Result<(), Error> {
        if self.stopped.load(Relaxed) {
            return Err(stopped());
        }
        Ok(interrupt::check()?)
    }

    /// Runs `work`, the part `name` of the transfer. Stops all threads if it fails or panics.
    pub fn run(&self, name: &str, work: impl FnOnce() -> Result<(), Error>) {
        self.cancellation.clone().cover(|| {
            let done = caught(name, || {
                #[cfg(feature = "broken-parts")]
                self.broken.panic_in(name);
                work()
            });
            if let Err(error) = done {
                // a thread that was stopped does not know the reason
                if !self.stopped.load(Relaxed) {
                    self.fail(error);
                }
            }
        });
    }

    /// Sends a message on `stream` once there is room for its octets. A peer that reads nothing blocks the thread. This
    /// wait does not count as work of this side.
    pub fn send(&self, stream: &Stream, octets: Vec<u8>) -> Result<(), Error> {
        if !stream.wait_for_room(Duration::ZERO) {
            let _pause = self.work.pause();
            while !stream.wait_for_room(CHECK_INTERVAL) {
                self.check()?;
            }
        }
        Ok(stream.send(&Frame::message(octets))?)
    }

    /// Waits for the next frame of `stream`, without a time limit.
    pub fn receive(&self, stream: &Stream, clock: Clock) -> Result<Frame, Error> {
        loop {
            self.check()?;
            match stream.receive(clock, clock.now() + CHECK_INTERVAL) {
                Err(lighthaul_io::error::Error::TimedOut(_)) => {}
                frame => return Ok(frame?),
            }
        }
    }
}

/// Returns the error of a thread that was stopped because another failed.
fn stopped() -> Error {
    Fault::Stopped.into()
}

#[cfg(test)]
mod tests {
    use lighthaul_session::fault::PeerFault;

    use super::*;

    #[test]
    fn error_of_a_stopped_thread_does_not_replace_the_cause() {
        let threads = ThreadGroup::default();
        let lost = Error::from(PeerFault::reported(
            Code::Network as u8,
            "the connection was lost",
        ));
        threads.fail(lost.clone());
        threads.fail(threads.check().unwrap_err());
        assert_eq!(threads.take_failure(), Some(lost.clone()));
        // the report of the peer explains the lost connection
        let said = Error::from(PeerFault::reported(Code::Io as u8, "no space left"));
        threads.fail(lost);
        threads.fail(said.clone());
        assert_eq!(threads.take_failure(), Some(said));
    }
}
