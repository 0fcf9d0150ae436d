//! Session with the server, and a new one after each loss.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
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

/// Present session, or how the last attempt to open one failed.
#[derive(Debug, Default)]
struct Present {
    link: Option<Arc<Link>>,
    failed: Option<(Instant, Failure)>,
}

#[derive(Debug)]
struct Inner {
    connector: Box<dyn Connector>,
    request: Request,
    present: Mutex<Present>,
    clock: Clock,
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
            present: Mutex::new(Present {
                link: Some(Arc::new(link)),
                failed: None,
            }),
            clock: Clock::start(),
            ahead: AtomicU64::new(0),
        })))
    }

    /// Repeats a read-only request until it succeeds, or fails for a reason other than the connection.
    pub(super) fn repeat<T>(
        &self,
        attempt: impl Fn(&Link) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let clock = self.0.clock;
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
        let clock = self.0.clock;
        let begun = clock.now();
        let deadline = begun + patience;
        let present = self.0.present.lock();
        let mut present = present.unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = present.link.as_ref().filter(|link| !link.has_ended()) {
            return Ok(Arc::clone(link));
        }
        // another thread has tried meanwhile
        if let Some((at, failure)) = &present.failed
            && *at >= begun
        {
            return Err(failure.clone());
        }
        present.link = None;
        let [mut rest, longest] = PAUSES;
        loop {
            let request = self.0.request;
            let connected = self.0.connector.connect(&request);
            match connected.and_then(|connected| Link::start(connected, request)) {
                Ok(link) => return Ok(Arc::clone(present.link.insert(Arc::new(link)))),
                Err(error) if is_passing(&error) && clock.now() < deadline => {}
                Err(error) => {
                    let failure = Failure::lost(&error);
                    present.failed = Some((clock.now(), failure.clone()));
                    return Err(failure);
                }
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
