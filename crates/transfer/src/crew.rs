//! The threads of one transfer: the first that fails stops the others.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lighthaul_io::control::{Frame, Stream};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error, caught};

use crate::work::Work;

/// How often a thread that waits looks whether it is to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// What the threads of a transfer know of each other.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    stopped: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// Work of this side.
    pub(crate) work: Arc<Work>,
    #[cfg(test)]
    fault: tests::Fault,
}

impl Crew {
    /// Stops all, for this reason unless there was one before.
    pub(crate) fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        // what somebody did or said explains a connection that ended, not the other way round
        let explains = |known: &Error| known.code == Code::Network && error.code != Code::Network;
        // who was only stopped explains nothing
        let is_stopped = error.code == Code::Interrupted && interrupt::check().is_ok();
        let better = match failure.as_ref() {
            Some(known) => explains(known) && !is_stopped,
            None => true,
        };
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

    /// Runs `work`, a part of the transfer with this name, and stops all if it fails or panics.
    pub(crate) fn run(&self, name: &str, work: impl FnOnce() -> Result<(), Error>) {
        let done = caught(name, || {
            #[cfg(test)]
            self.fault.strike(name);
            work()
        });
        if let Err(error) = done {
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
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The part that panics in transfers that this thread begins.
        pub(crate) static BROKEN: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// A part of a transfer that panics.
    #[derive(Debug)]
    pub(super) struct Fault(Option<&'static str>);

    impl Default for Fault {
        fn default() -> Self {
            Self(BROKEN.get())
        }
    }

    impl Fault {
        /// Panics in the part of this name.
        pub(super) fn strike(&self, name: &str) {
            assert!(self.0 != Some(name), "broken on purpose");
        }
    }

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
