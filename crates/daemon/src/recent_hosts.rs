//! Hosts from which clients were admitted in the last week. They have priority if unknown clients use all connections.
//!
//! A site has a share of the record, so that the hosts of one site cannot push out those of others. The record is in
//! memory only: a daemon has no directory of its own to write to, and learns its callers again after a restart.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;

/// Hosts in the record. Beyond that, the site with most hosts loses the one that was admitted longest ago.
const HOSTS_MAX: usize = 4096;
/// Hosts of one site.
const SITE_MAX: usize = HOSTS_MAX / 16;
/// Time for which a host is known.
const AGE_MAX: Duration = Duration::from_hours(24 * 7);

/// Record of the hosts whose callers were admitted, and when.
#[derive(Debug, Default)]
pub(crate) struct RecentHosts(Mutex<Sites>);

/// Hosts by site.
#[derive(Debug, Default)]
struct Sites {
    hosts: BTreeMap<Prefix, Hosts>,
    count: usize,
}

/// Hosts of a site, and the time of their last admission.
type Hosts = BTreeMap<Prefix, Instant>;

impl RecentHosts {
    /// Records the host at `address`, whose caller proved its key and was admitted at `now`.
    pub(crate) fn remember(&self, address: IpAddr, now: Instant) {
        let [host, _, site] = Prefix::all(address);
        let mut sites = self.lock();
        let hosts = sites.hosts.entry(site).or_default();
        let is_new = hosts.insert(host, now).is_none();
        let is_full = hosts.len() > SITE_MAX;
        sites.count += usize::from(is_new);
        if is_full {
            sites.forget_one(site);
        }
        if sites.count > HOSTS_MAX {
            let largest = sites.hosts.iter().max_by_key(|(_, hosts)| hosts.len());
            if let Some(largest) = largest.map(|(site, _)| *site) {
                sites.forget_one(largest);
            }
        }
    }

    /// Reports whether a caller of the host at `address` was admitted in the last week.
    pub(crate) fn contains(&self, address: IpAddr, now: Instant) -> bool {
        let [host, _, site] = Prefix::all(address);
        let sites = self.lock();
        let at = sites.hosts.get(&site).and_then(|hosts| hosts.get(&host));
        at.is_some_and(|at| now.since(*at) < AGE_MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Sites> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sites {
    /// Removes the host of `site` that was admitted longest ago.
    fn forget_one(&mut self, site: Prefix) {
        let Some(hosts) = self.hosts.get_mut(&site) else {
            return;
        };
        let oldest = hosts.iter().min_by_key(|(_, at)| **at);
        if let Some(oldest) = oldest.map(|(host, _)| *host) {
            hosts.remove(&oldest);
            self.count -= 1;
        }
        if hosts.is_empty() {
            self.hosts.remove(&site);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// An address of a site of its own for every `site`.
    fn address(site: u16, host: u8) -> IpAddr {
        let [high, low] = site.to_be_bytes();
        [10, high, low, host].into()
    }

    #[test]
    fn host_is_known_for_a_week() {
        let hosts = RecentHosts::default();
        hosts.remember(address(0, 7), at(5));
        assert!(hosts.contains(address(0, 7), at(6)) && !hosts.contains(address(0, 8), at(6)));
        assert!(!hosts.contains(address(0, 7), at(5) + AGE_MAX));
    }

    #[test]
    fn one_site_cannot_push_out_the_hosts_of_others() {
        let hosts = RecentHosts::default();
        hosts.remember(address(9, 9), at(0));
        // an IPv6 /48 has 65536 networks, each of which counts as a host
        for network in 0..=u16::MAX {
            let address = [0x2001, 0xdb8, 0, network, 0, 0, 0, 1];
            hosts.remember(IpAddr::from(address), at(1 + u64::from(network)));
        }
        assert!(hosts.contains(address(9, 9), at(70_000)));
        assert_eq!(hosts.lock().count, 1 + SITE_MAX);
        let newest = [0x2001, 0xdb8, 0, u16::MAX, 0, 0, 0, 2];
        assert!(hosts.contains(IpAddr::from(newest), at(70_000)));
    }

    #[test]
    fn full_record_forgets_the_oldest_host_of_the_largest_site() {
        let hosts = RecentHosts::default();
        for host in 0..100 {
            hosts.remember(address(0, host), at(1000 + u64::from(host)));
        }
        for site in 1..=(HOSTS_MAX - 100) as u16 {
            hosts.remember(address(site, 1), at(5));
        }
        assert_eq!(hosts.lock().count, HOSTS_MAX);
        hosts.remember(address(u16::MAX, 1), at(2000));
        assert_eq!(hosts.lock().count, HOSTS_MAX);
        assert!(!hosts.contains(address(0, 0), at(2000)));
        assert!(hosts.contains(address(0, 1), at(2000)) && hosts.contains(address(1, 1), at(2000)));
        // a host that is admitted again takes no further place
        hosts.remember(address(0, 1), at(2000));
        assert_eq!(hosts.lock().count, HOSTS_MAX);
    }
}
