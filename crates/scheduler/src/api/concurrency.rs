//! Limit on concurrent requests of each address and each identity, so that no client occupies all threads.
//!
//! ```text
//! request -> permit of its address -> authentication -> permit of its identity -> answer -> memory
//!                                      of the response is counted -> both permits are free
//! ```
//!
//! Work on a thread holds the permits until it ends, even if its request has timed out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use lighthaul_base::prefix::Prefix;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};

use super::peer::Peer;
use super::request_memory::RequestSlot;
use crate::connections::site;

/// Semaphores of all clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConcurrencyLimits(Arc<Mutex<BTreeMap<Group, Weak<Semaphore>>>>);

/// Group of clients with a common limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Site(Prefix),
    Name(String),
}

/// Permits of one request.
#[derive(Clone, Debug)]
pub(crate) struct Permits(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: ConcurrencyLimits,
    site: Option<Prefix>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    site: Option<OwnedSemaphorePermit>,
    name: Option<OwnedSemaphorePermit>,
    /// Memory of the body, until the identity is known and the limit of the identity applies.
    body: Option<RequestSlot>,
}

tokio::task_local! {
    /// Permits of the request that the current task serves.
    static PERMITS: Permits;
}

impl Group {
    const fn most(&self) -> usize {
        match self {
            Self::Site(_) => SITE_MAX,
            Self::Name(_) => NAME_MAX,
        }
    }
}

impl ConcurrencyLimits {
    fn of(&self, group: Group) -> Arc<Semaphore> {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = limits.get(&group).and_then(Weak::upgrade) {
            return held;
        }
        if limits.len() >= GROUPS_MAX {
            limits.retain(|_, held| held.strong_count() > 0);
        }
        let held = Arc::new(Semaphore::new(group.most()));
        limits.insert(group, Arc::downgrade(&held));
        held
    }

    async fn permit(&self, group: Group) -> Option<OwnedSemaphorePermit> {
        self.of(group).acquire_owned().await.ok()
    }

    /// Runs `work` of a known client with the permit of its identity.
    pub(crate) async fn with_name<T>(&self, name: &str, work: impl Future<Output = T>) -> T {
        let permits = Permits::new(self.clone(), None);
        permits.identify(name).await;
        PERMITS.scope(permits, work).await
    }
}

impl Permits {
    fn new(limits: ConcurrencyLimits, site: Option<Prefix>) -> Self {
        Self(Arc::new(Inner {
            limits,
            site,
            held: Mutex::default(),
        }))
    }

    async fn take_site(&self) {
        let has_site = self.held().site.is_some();
        if let Some(site) = self.0.site.filter(|_| !has_site) {
            let permit = self.0.limits.permit(Group::Site(site)).await;
            self.held().site = permit;
        }
    }

    /// Waits for the permit of an identity. The permit of the address is free meanwhile, so that other
    /// clients there do not wait for this identity.
    async fn identify(&self, name: &str) {
        self.held().body = None;
        let group = Group::Name(name.to_owned());
        let permit = self.0.limits.of(group.clone()).try_acquire_owned();
        if let Ok(permit) = permit {
            self.held().name = Some(permit);
            return;
        }
        self.held().site = None;
        let permit = self.0.limits.permit(group).await;
        self.held().name = permit;
        self.take_site().await;
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a request with permits. A request that may have a body waits for the permit of its address.
pub(crate) async fn limit(
    State(limits): State<ConcurrencyLimits>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>();
    let permits = Permits::new(limits, peer.map(|Peer(address, _)| site(*address)));
    if request.method() != Method::GET {
        permits.take_site().await;
    }
    PERMITS.scope(permits, next.run(request)).await
}

/// Delays the current request until its address is below its limit. Requests that need neither an
/// identity nor a thread, as for the health of the service, never wait.
pub(crate) async fn enter() {
    if let Ok(permits) = PERMITS.try_with(Permits::clone) {
        permits.take_site().await;
    }
}

/// Delays the current request until its identity is below its limit.
pub(crate) async fn identify(name: &str) {
    if let Ok(permits) = PERMITS.try_with(Permits::clone) {
        permits.identify(name).await;
    }
}

/// Holds the memory of the current request's body until the client is authenticated or the request
/// ends.
pub(crate) fn hold_body(slot: RequestSlot) {
    if let Ok(permits) = PERMITS.try_with(Permits::clone) {
        permits.held().body = Some(slot);
    }
}

/// Runs `work` in a thread that keeps the permits of the current request until `work` has ended.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let permits = PERMITS.try_with(Permits::clone).ok();
    let threaded = spawn_blocking(move || {
        let done = work();
        drop(permits);
        done
    });
    threaded.await
}

/// Maximum concurrent requests of an address, out of the 32 threads that serve requests.
const SITE_MAX: usize = 16;
/// Maximum concurrent requests of an identity.
const NAME_MAX: usize = 8;
/// Number of semaphores above which unused semaphores are deleted.
const GROUPS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn site_of(host: u8) -> Group {
        Group::Site(Prefix::host([10, 0, 0, host].into()))
    }

    #[test]
    fn limit_of_an_address_or_identity_does_not_affect_other_clients() {
        let limits = ConcurrencyLimits::default();
        let take = |group: &Group| limits.of(group.clone()).try_acquire_owned().ok();
        let ada = Group::Name("ada".to_owned());
        let held: Vec<_> = std::iter::from_fn(|| take(&ada)).collect();
        assert_eq!(held.len(), NAME_MAX);
        assert!(take(&Group::Name("bob".to_owned())).is_some());
        let mut one = Vec::new();
        one.extend(std::iter::from_fn(|| take(&site_of(1))));
        assert_eq!(one.len(), SITE_MAX);
        assert!(take(&site_of(2)).is_some());
        drop(held);
        assert!(take(&ada).is_some());
    }

    #[test]
    fn unused_semaphores_are_deleted() {
        let limits = ConcurrencyLimits::default();
        let kept = limits.of(Group::Name("ada".to_owned()));
        for nth in 0..3 * GROUPS_MAX {
            limits.of(Group::Name(nth.to_string()));
        }
        assert!(limits.0.lock().unwrap().len() <= GROUPS_MAX);
        assert!(Arc::ptr_eq(
            &kept,
            &limits.of(Group::Name("ada".to_owned()))
        ));
    }
}
