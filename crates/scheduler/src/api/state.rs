//! State that all requests share.
//!
//! `ApiState` is a handle that each request clones. It has the books, the authenticator, the limits
//! and the metrics. The books and the authenticator may block, so both run on threads of their own,
//! apart from the async runtime. Handlers write through `change`, which records the client, the
//! action and the result in the audit log. Requests are limited for each name, and failed
//! authentications for each address.

use std::sync::Arc;

use lighthaul_booking::books::{Books, Principal, Status};
use lighthaul_booking::error::Result;
use lighthaul_booking_client::json::{JobView, OutageView, Reservation, Timestamp};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use tokio::sync::watch;
use tracing::{info, warn};

use super::api_error::ApiError;
use super::concurrency::{ConcurrencyLimits, on_thread};
use super::listener_slots::ListenerSlots;
use super::metrics::Metrics;
use crate::identity::Authenticator;
use crate::identity::rate_limiter::RateLimiter;
use crate::jobs::job_error::JobError;
use crate::jobs::{self, JobDesk};

/// State that all requests share.
#[derive(Clone, Debug)]
pub(crate) struct ApiState(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    books: Arc<Books>,
    jobs: Option<JobDesk>,
    authenticator: Authenticator,
    limits: RateLimiter,
    /// Rate limits of unauthenticated addresses, separate from the limits of names.
    failures: RateLimiter,
    clock: Clock,
    metrics: Metrics,
    /// Counter of changes.
    changes: watch::Receiver<u64>,
    slots: ListenerSlots,
    concurrency: ConcurrencyLimits,
}

impl ApiState {
    /// Returns the state of a service that answers a limited number of requests per second and name.
    pub(crate) fn new(
        books: Arc<Books>,
        jobs: Option<JobDesk>,
        authenticator: Authenticator,
        per_second: u32,
    ) -> Self {
        let (sender, changes) = watch::channel(0_u64);
        books.listen(move || sender.send_modify(|count| *count = count.wrapping_add(1)));
        Self(Arc::new(Inner {
            books,
            jobs,
            authenticator,
            limits: RateLimiter::new(per_second),
            failures: RateLimiter::new(per_second),
            clock: Clock::start(),
            metrics: Metrics::new(),
            changes,
            slots: ListenerSlots::new(LISTENERS_MAX, LISTENERS_EACH),
            concurrency: ConcurrencyLimits::default(),
        }))
    }

    /// Reads or changes the books on a thread of its own, because they wait for the disk.
    pub(crate) async fn with_books<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Books) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, ApiError> {
        let books = Arc::clone(&self.0.books);
        match on_thread(move || work(&books)).await {
            Ok(answer) => answer.map_err(ApiError::from),
            Err(_) => Err(ApiError::fault()),
        }
    }

    /// Changes the books, and writes the client, the action and the result to the audit log.
    pub(crate) async fn change<T: Changed + Send + 'static>(
        &self,
        principal: Principal,
        action: String,
        work: impl FnOnce(&Books, &Principal) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, ApiError> {
        let by = principal.clone();
        let result = self.with_books(move |books| work(books, &by)).await;
        self.audit(&principal, &action, &result);
        result
    }

    /// Reads or changes the queue on a thread of its own.
    pub(crate) async fn with_jobs<T: Send + 'static>(
        &self,
        work: impl FnOnce(&JobDesk) -> jobs::desk::Result<T> + Send + 'static,
    ) -> std::result::Result<T, ApiError> {
        self.with_desk(|desk, _| work(desk)).await
    }

    /// Changes the queue, and writes the client, the action and the result to the audit log.
    pub(crate) async fn change_job<T: Changed + Send + 'static>(
        &self,
        principal: Principal,
        action: String,
        work: impl FnOnce(&JobDesk, &Books, &Principal) -> jobs::desk::Result<T> + Send + 'static,
    ) -> std::result::Result<T, ApiError> {
        let by = principal.clone();
        let result = self.with_desk(move |desk, books| work(desk, books, &by));
        let result = result.await;
        self.audit(&principal, &action, &result);
        result
    }

    async fn with_desk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&JobDesk, &Books) -> jobs::desk::Result<T> + Send + 'static,
    ) -> std::result::Result<T, ApiError> {
        let state = Arc::clone(&self.0);
        let done = on_thread(move || {
            let desk = state.jobs.as_ref().ok_or(JobError::NoQueue)?;
            work(desk, &state.books)
        });
        match done.await {
            Ok(answer) => answer.map_err(ApiError::from),
            Err(_) => Err(ApiError::fault()),
        }
    }

    /// Looks after the queue, if the scheduler has one.
    pub(crate) async fn look_after_jobs(&self) {
        let state = Arc::clone(&self.0);
        let looked = on_thread(move || {
            let Some(desk) = &state.jobs else {
                return;
            };
            let now = unix_nanos() / 1_000_000_000;
            desk.look(
                |name| state.books.policy_of(name),
                |name| state.authenticator.standing(name, now),
            );
        });
        if looked.await.is_err() {
            warn!("a look at the queue of jobs has failed");
        }
    }

    /// Returns true if the scheduler has a queue.
    pub(crate) fn has_jobs(&self) -> bool {
        self.0.jobs.is_some()
    }

    /// Returns the fault of the queue, if there is one that cannot be used.
    pub(crate) fn queue_fault(&self) -> Option<String> {
        self.0.jobs.as_ref()?.fault()
    }

    /// Writes a change to the audit log.
    fn audit<T: Changed>(
        &self,
        principal: &Principal,
        action: &str,
        result: &std::result::Result<T, ApiError>,
    ) {
        match result {
            Ok(changed) => {
                let id = changed.id();
                info!(target: AUDIT, who = principal.name, role = %principal.role, action, id, "done");
                self.0.metrics.change("made");
            }
            Err(why) => {
                let why = why.detail();
                warn!(target: AUDIT, who = principal.name, role = %principal.role, action, why, "refused");
                self.0.metrics.change("refused");
            }
        }
    }

    /// Returns a receiver that is notified of each later change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changes.clone()
    }

    /// Returns the last known status of the books, without waiting.
    pub(crate) fn status(&self) -> Status {
        self.0.books.status()
    }

    /// Returns the client that sent `authorization`.
    pub(crate) async fn authenticate(
        &self,
        authorization: Option<String>,
    ) -> std::result::Result<Principal, ApiError> {
        let state = Arc::clone(&self.0);
        let now = unix_nanos() / 1_000_000_000;
        let authenticated = on_thread(move || {
            state
                .authenticator
                .authenticate(authorization.as_deref(), now)
        });
        match authenticated.await {
            Ok(authenticated) => authenticated.map_err(ApiError::from),
            Err(_) => Err(ApiError::fault()),
        }
    }

    /// Counts a request against the rate limit of `name`.
    pub(crate) fn check_rate(&self, name: &str) -> std::result::Result<(), ApiError> {
        self.0
            .limits
            .take(name, self.0.clock.now())
            .map_err(ApiError::too_often)
    }

    /// Counts a failed authentication against the rate limit of an address.
    pub(crate) fn check_failed_rate(&self, address: &str) -> std::result::Result<(), ApiError> {
        self.0
            .failures
            .take(address, self.0.clock.now())
            .map_err(ApiError::too_often)
    }

    /// Returns the slots for event streams.
    pub(crate) fn slots(&self) -> &ListenerSlots {
        &self.0.slots
    }

    /// Returns the limits of concurrent requests.
    pub(crate) fn concurrency(&self) -> &ConcurrencyLimits {
        &self.0.concurrency
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Returns the current time.
    pub(crate) fn now() -> Timestamp {
        Timestamp(unix_nanos())
    }
}

/// Result of a change.
pub(crate) trait Changed {
    /// Returns the number of the changed object.
    fn id(&self) -> u64;
}

impl Changed for Reservation {
    fn id(&self) -> u64 {
        self.id
    }
}

impl Changed for OutageView {
    fn id(&self) -> u64 {
        self.id
    }
}

impl Changed for JobView {
    fn id(&self) -> u64 {
        self.id
    }
}

/// Target of audit log lines.
const AUDIT: &str = "lighthaul_audit";
/// Maximum number of event streams in total.
const LISTENERS_MAX: usize = 128;
/// Maximum number of event streams of each name.
const LISTENERS_EACH: usize = 16;
