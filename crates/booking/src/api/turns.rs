//! Limit on concurrent requests of each address and each identity, so that none of them occupies
//! all threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use lighthaul_base::prefix::Prefix;
use tokio::sync::Semaphore;

use super::caller::Peer;
use crate::connections::site;

/// Semaphores of all clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<BTreeMap<Share, Weak<Semaphore>>>>);

/// Group of clients with a common limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Share {
    Site(Prefix),
    Name(String),
}

impl Share {
    const fn most(&self) -> usize {
        match self {
            Self::Site(_) => SITE_MAX,
            Self::Name(_) => NAME_MAX,
        }
    }
}

impl Turns {
    fn of(&self, share: Share) -> Arc<Semaphore> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = turns.get(&share).and_then(Weak::upgrade) {
            return held;
        }
        if turns.len() >= SHARES_MAX {
            turns.retain(|_, held| held.strong_count() > 0);
        }
        let held = Arc::new(Semaphore::new(share.most()));
        turns.insert(share, Arc::downgrade(&held));
        held
    }
}

/// Delays a request until its identity, if known, and its address are below their limits.
pub(crate) async fn wait(State(turns): State<Turns>, request: Request, next: Next) -> Response {
    let Some(Peer(address, connection)) = request.extensions().get::<Peer>().cloned() else {
        return next.run(request).await;
    };
    let name = connection
        .identity()
        .map(|name| turns.of(Share::Name(name)));
    let _of_name = match &name {
        Some(name) => name.acquire().await.ok(),
        None => None,
    };
    let site = turns.of(Share::Site(site(address)));
    let _of_site = site.acquire().await.ok();
    next.run(request).await
}

/// Maximum concurrent requests of an address and of an identity; 32 threads serve them.
const SITE_MAX: usize = 16;
const NAME_MAX: usize = 8;
/// Number of semaphores above which unused ones are deleted.
const SHARES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn site_of(host: u8) -> Share {
        Share::Site(Prefix::host([10, 0, 0, host].into()))
    }

    #[test]
    fn limit_of_one_address_or_identity_does_not_affect_others() {
        let turns = Turns::default();
        let take = |share: &Share| turns.of(share.clone()).try_acquire_owned().ok();
        let ada = Share::Name("ada".to_owned());
        let held: Vec<_> = std::iter::from_fn(|| take(&ada)).collect();
        assert_eq!(held.len(), NAME_MAX);
        assert!(take(&Share::Name("bob".to_owned())).is_some());
        let mut one = Vec::new();
        one.extend(std::iter::from_fn(|| take(&site_of(1))));
        assert_eq!(one.len(), SITE_MAX);
        assert!(take(&site_of(2)).is_some());
        drop(held);
        assert!(take(&ada).is_some());
    }

    #[test]
    fn unused_semaphores_are_deleted() {
        let turns = Turns::default();
        let kept = turns.of(Share::Name("ada".to_owned()));
        for nth in 0..3 * SHARES_MAX {
            turns.of(Share::Name(nth.to_string()));
        }
        assert!(turns.0.lock().unwrap().len() <= SHARES_MAX);
        assert!(Arc::ptr_eq(&kept, &turns.of(Share::Name("ada".to_owned()))));
    }
}
