//! Session with the server, and a new one after each loss.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Code, Error};

use crate::client::connector::Connector;
use crate::client::link::Link;
use crate::failure::{Failure, FailureKind};
use crate::message::Request;

/// Time for which requests are repeated after the loss of a connection.
const RETRY_TIMEOUT: Duration = Duration::from_mins(1);
/// First and longest pause between two attempts to connect.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// Session with the server, and a new one after each loss. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Links(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connector: Box<dyn Connector>,
    request: Request,
    link: Mutex<Option<Arc<Link>>>,
    /// Bytes that readers hold in advance.
    ahead: AtomicU64,
}

impl Links {
    /// Opens the first session.
    pub(super) fn connect(connector: Box<dyn Connector>, request: Request) -> Result<Self, Error> {
        let link = Link::start(connector.connect(&request)?, request)?;
        Ok(Self(Arc::new(Inner {
            connector,
            request,
            link: Mutex::new(Some(Arc::new(link))),
            ahead: AtomicU64::new(0),
        })))
    }

    /// Repeats a request that changes nothing until it succeeds, or fails for another reason than the connection.
    pub(super) fn repeat<T>(
        &self,
        attempt: impl Fn(&Link) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let clock = Clock::start();
        let deadline = clock.now() + RETRY_TIMEOUT;
        loop {
            let link = self.link(clock.until(deadline))?;
            match attempt(&link) {
                Err(failure) if failure.kind == FailureKind::Lost && clock.now() < deadline => {}
                result => return result,
            }
        }
    }

    /// Returns the session, or a new one after a loss. Attempts to connect are repeated for `patience`.
    pub(super) fn link(&self, patience: Duration) -> Result<Arc<Link>, Failure> {
        let mut held = self.0.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = held.as_ref().filter(|link| !link.has_ended()) {
            return Ok(Arc::clone(link));
        }
        *held = None;
        let clock = Clock::start();
        let deadline = clock.now() + patience;
        let [mut rest, longest] = PAUSES;
        loop {
            let request = self.0.request;
            let connected = self.0.connector.connect(&request);
            match connected.and_then(|connected| Link::start(connected, request)) {
                Ok(link) => return Ok(Arc::clone(held.insert(Arc::new(link)))),
                Err(error) if is_passing(&error) && clock.now() < deadline => {}
                Err(error) => return Err(Failure::lost(&error)),
            }
            pause(rest);
            rest = (rest * 2).min(longest);
        }
    }

    /// Returns the counter of the bytes that readers hold in advance.
    pub(super) fn ahead(&self) -> &AtomicU64 {
        &self.0.ahead
    }
}

/// Returns true if another attempt to connect may succeed.
fn is_passing(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::Network | Code::TimedOut | Code::Stopping
    )
}
