//! Hosts from which callers were let in lately: they come first where strangers crowd the door.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;

/// Hosts that are remembered; the one that was let in longest ago is forgotten first.
const HOSTS_MAX: usize = 4096;
/// How long a host is remembered.
const MEMORY: Duration = Duration::from_hours(24 * 7);

/// Hosts that were let in, and when.
#[derive(Debug, Default)]
pub(crate) struct RecentHosts(Mutex<BTreeMap<Prefix, Instant>>);

impl RecentHosts {
    /// Remembers the host at `address`, whose key was let in at `now`.
    pub(crate) fn remember(&self, address: IpAddr, now: Instant) {
        let mut hosts = self.lock();
        hosts.insert(Prefix::host(address), now);
        if hosts.len() > HOSTS_MAX {
            let oldest = hosts.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(host, _)| *host) {
                hosts.remove(&oldest);
            }
        }
    }

    /// Whether the host at `address` was let in lately.
    pub(crate) fn contains(&self, address: IpAddr, now: Instant) -> bool {
        let hosts = self.lock();
        let at = hosts.get(&Prefix::host(address));
        at.is_some_and(|at| now.since(*at) < MEMORY)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Prefix, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_remembered_for_a_week_and_not_without_bound() {
        let hosts = RecentHosts::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        hosts.remember(address(7), at(5));
        assert!(hosts.contains(address(7), at(6)) && !hosts.contains(address(8), at(6)));
        assert!(!hosts.contains(address(7), at(5) + MEMORY));
        for n in 0..HOSTS_MAX as u32 {
            hosts.remember(address(n + 100), at(10));
        }
        assert!(
            !hosts.contains(address(7), at(6)),
            "the oldest is forgotten"
        );
        assert_eq!(hosts.lock().len(), HOSTS_MAX);
    }
}
