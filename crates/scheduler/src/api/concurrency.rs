//! Limit on concurrent requests of each address and each identity, so that none of them occupies
//! all threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use lighthaul_base::prefix::Prefix;
use tokio::sync::Semaphore;

use super::authenticated::Peer;
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
}

/// Delays a request until its identity, if known, and its address are below their limits.
pub(crate) async fn wait(
    State(limits): State<ConcurrencyLimits>,
    request: Request,
    next: Next,
) -> Response {
    let Some(Peer(address, connection)) = request.extensions().get::<Peer>().cloned() else {
        return next.run(request).await;
    };
    let name = connection
        .identity()
        .map(|name| limits.of(Group::Name(name)));
    let _of_name = match &name {
        Some(name) => name.acquire().await.ok(),
        None => None,
    };
    let site = limits.of(Group::Site(site(address)));
    let _of_site = site.acquire().await.ok();
    next.run(request).await
}

/// Maximum concurrent requests of an address and of an identity; 32 threads serve them.
const SITE_MAX: usize = 16;
const NAME_MAX: usize = 8;
/// Number of semaphores above which unused ones are deleted.
const GROUPS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn site_of(host: u8) -> Group {
        Group::Site(Prefix::host([10, 0, 0, host].into()))
    }

    #[test]
    fn limit_of_one_address_or_identity_does_not_affect_others() {
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
