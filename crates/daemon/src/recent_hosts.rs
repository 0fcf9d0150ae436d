//! Hosts from which clients were admitted recently. They get places before other hosts.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;

/// Maximum number of hosts; the host that was admitted longest ago is forgotten first.
const HOSTS_MAX: usize = 4096;
/// Time for which a host is remembered.
const AGE_MAX: Duration = Duration::from_hours(24 * 7);

/// Recent hosts, with the time of the last admission.
#[derive(Debug, Default)]
pub(crate) struct RecentHosts(Mutex<BTreeMap<Prefix, Instant>>);

impl RecentHosts {
    /// Remembers that a client on the host at `address` was admitted at `now`.
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

    /// Returns true if a client on the host at `address` was admitted recently.
    pub(crate) fn contains(&self, address: IpAddr, now: Instant) -> bool {
        let hosts = self.lock();
        let at = hosts.get(&Prefix::host(address));
        at.is_some_and(|at| now.since(*at) < AGE_MAX)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Prefix, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_remembered_for_a_week_and_limited_in_number() {
        let hosts = RecentHosts::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        hosts.remember(address(7), at(5));
        assert!(hosts.contains(address(7), at(6)) && !hosts.contains(address(8), at(6)));
        assert!(!hosts.contains(address(7), at(5) + AGE_MAX));
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
