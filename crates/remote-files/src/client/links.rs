//! Session with the server, and a new one after each loss.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Code, Error, caught};

use crate::client::answer::LOOK;
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
    /// True while a thread connects.
    is_connecting: bool,
}

#[derive(Debug)]
struct Inner {
    connector: Box<dyn Connector>,
    request: Request,
    present: Mutex<Present>,
    /// Raised when an attempt to connect has ended.
    changed: Condvar,
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
                ..Present::default()
            }),
            changed: Condvar::new(),
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

    /// Returns the session, or a new one after a loss. Attempts to connect are repeated for `patience`. A thread of their
    /// own makes them, so that a caller whose task is cancelled does not wait.
    pub(super) fn link(&self, patience: Duration) -> Result<Arc<Link>, Failure> {
        let inner = &self.0;
        let begun = inner.clock.now();
        let task = Cancellation::current();
        let mut present = self.present();
        loop {
            if let Some(link) = present.link.as_ref().filter(|link| !link.has_ended()) {
                return Ok(Arc::clone(link));
            }
            // an attempt that was made meanwhile
            if let Some((at, failure)) = &present.failed
                && *at >= begun
            {
                return Err(failure.clone());
            }
            if task.is_cancelled() {
                return Err(Failure::interrupted());
            }
            if !present.is_connecting {
                present.link = None;
                self.start_connecting(begun + patience)?;
                present.is_connecting = true;
            }
            let waited = inner.changed.wait_timeout(present, LOOK);
            (present, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts a thread that connects until it succeeds, or until `deadline`.
    fn start_connecting(&self, deadline: Instant) -> Result<(), Failure> {
        let links = self.clone();
        let thread = thread::Builder::new().name("remote connection".into());
        let run = move || {
            let connected = caught("remote connection", || links.connect_until(deadline));
            let mut present = links.present();
            present.is_connecting = false;
            match connected {
                Ok(link) => present.link = Some(Arc::new(link)),
                Err(error) => {
                    present.failed = Some((links.0.clock.now(), Failure::lost(&error)));
                }
            }
            drop(present);
            links.0.changed.notify_all();
        };
        let failed = |error| Failure::lost(&World::world("cannot start a thread", error).into());
        thread.spawn(run).map(drop).map_err(failed)
    }

    /// Connects, again after failures that may pass.
    fn connect_until(&self, deadline: Instant) -> Result<Link, Error> {
        let [mut rest, longest] = PAUSES;
        loop {
            let request = self.0.request;
            let connected = self.0.connector.connect(&request);
            match connected.and_then(|connected| Link::start(connected, request)) {
                Err(error) if is_passing(&error) && self.0.clock.now() < deadline => {}
                connected => return connected,
            }
            pause(rest);
            rest = (rest * 2).min(longest);
        }
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.0
            .present
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
