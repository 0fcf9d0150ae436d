//! Hosts from which clients were admitted in the last week. They have priority if unknown clients use all connections.
//!
//! A site has a share of the record, so that the hosts of one site cannot push out those of others. A file beside the
//! list of keys keeps the record over restarts: a line for each host, with its address and the time of the admission in
//! seconds since 1970. A missing or damaged file is ignored, since it decides only who comes first.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_base::prefix::Prefix;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::durable;

/// Hosts in the record. Beyond that, the site with most hosts loses the one that was admitted longest ago.
const HOSTS_MAX: usize = 4096;
/// Hosts of one site.
const SITE_MAX: usize = HOSTS_MAX / 16;
/// Seconds for which a host is known.
const AGE_MAX: u64 = 7 * 24 * 3600;
/// Octets of the longest line: an IPv6 address and a number.
const LINE_MAX: usize = 64;

/// Record of the hosts whose clients were admitted, with the times of admission. Times are seconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct RecentHosts {
    sites: Mutex<Sites>,
    /// True if the record differs from its file.
    changed: AtomicBool,
}

/// Returns the seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    unix_nanos() / 1_000_000_000
}

/// Hosts by site.
#[derive(Debug, Default)]
struct Sites {
    hosts: BTreeMap<Prefix, Hosts>,
    count: usize,
}

/// Hosts of a site, and the time of their last admission.
type Hosts = BTreeMap<Prefix, u64>;

impl RecentHosts {
    /// Records the host at `address`, from which a client with a proven key was admitted at `now`.
    pub(crate) fn remember(&self, address: IpAddr, now: u64) {
        let [host, _, site] = Prefix::all(address);
        self.changed.store(true, Relaxed);
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

    /// Removes the host at `address`, from which a client with a key without rights has called.
    pub(crate) fn forget(&self, address: IpAddr) {
        let [host, _, site] = Prefix::all(address);
        if self.lock().remove(site, host) {
            self.changed.store(true, Relaxed);
        }
    }

    /// Reports whether a caller of the host at `address` was admitted in the last week.
    pub(crate) fn contains(&self, address: IpAddr, now: u64) -> bool {
        let [host, _, site] = Prefix::all(address);
        let sites = self.lock();
        let at = sites.hosts.get(&site).and_then(|hosts| hosts.get(&host));
        at.is_some_and(|at| now.saturating_sub(*at) < AGE_MAX)
    }

    /// Reads the file at `path`, without hosts that were last admitted more than a week before `now`. Returns false if
    /// lines of the file, which are ignored, name none.
    pub(crate) fn load(&self, path: &Path, now: u64) -> io::Result<bool> {
        let Some(octets) = durable::read(path, (HOSTS_MAX * LINE_MAX) as u64)? else {
            return Ok(true);
        };
        let mut is_whole = true;
        for line in String::from_utf8_lossy(&octets).lines() {
            let host = line.split_once(' ').and_then(|(address, at)| {
                Some((address.parse::<IpAddr>().ok()?, at.parse::<u64>().ok()?))
            });
            match host {
                // a time to come would never pass
                Some((address, at)) if at <= now && now - at < AGE_MAX => {
                    self.remember(address, at);
                }
                Some(_) => {}
                None => is_whole = false,
            }
        }
        self.changed.store(false, Relaxed);
        Ok(is_whole)
    }

    /// Replaces the file at `path` with the record, if that has changed.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        if !self.changed.swap(false, Relaxed) {
            return Ok(());
        }
        let mut lines = String::new();
        for (host, at) in self.lock().hosts.values().flatten() {
            writeln!(lines, "{} {at}", host.address()).ok();
        }
        durable::replace(path, lines.as_bytes())
    }

    fn lock(&self) -> MutexGuard<'_, Sites> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sites {
    /// Removes the host of `site` that was admitted longest ago.
    fn forget_one(&mut self, site: Prefix) {
        let Some(hosts) = self.hosts.get(&site) else {
            return;
        };
        let oldest = hosts.iter().min_by_key(|(_, at)| **at);
        if let Some(oldest) = oldest.map(|(host, _)| *host) {
            self.remove(site, oldest);
        }
    }

    /// Removes `host` of `site`. Returns false if it was not listed.
    fn remove(&mut self, site: Prefix, host: Prefix) -> bool {
        let Some(hosts) = self.hosts.get_mut(&site) else {
            return false;
        };
        let was_listed = hosts.remove(&host).is_some();
        self.count -= usize::from(was_listed);
        if hosts.is_empty() {
            self.hosts.remove(&site);
        }
        was_listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> u64 {
        seconds
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
    fn forgotten_host_is_removed_from_the_record_and_its_file() {
        let path = std::env::temp_dir().join(format!("recent-hosts-gone-{}", std::process::id()));
        let hosts = RecentHosts::default();
        for host in [7, 8] {
            hosts.remember(address(0, host), at(5));
        }
        hosts.save(&path).unwrap();
        hosts.forget(address(0, 7));
        hosts.forget(address(0, 9));
        hosts.save(&path).unwrap();
        let again = RecentHosts::default();
        assert!(again.load(&path, at(9)).unwrap());
        for hosts in [hosts, again] {
            assert_eq!(hosts.lock().count, 1);
            assert!(!hosts.contains(address(0, 7), at(6)) && hosts.contains(address(0, 8), at(6)));
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn record_is_read_back_from_its_file_and_damage_is_ignored() {
        let path = std::env::temp_dir().join(format!("recent-hosts-{}", std::process::id()));
        let hosts = RecentHosts::default();
        assert!(hosts.load(&path, at(5)).unwrap(), "no file is no damage");
        hosts.remember(address(0, 7), at(5));
        hosts.remember(IpAddr::from([0x2001, 0xdb8, 0, 9, 0, 0, 0, 1]), at(6));
        hosts.save(&path).unwrap();
        let again = RecentHosts::default();
        assert!(again.load(&path, at(9)).unwrap());
        assert!(again.contains(address(0, 7), at(9)) && !again.contains(address(0, 8), at(9)));
        assert!(again.contains(IpAddr::from([0x2001, 0xdb8, 0, 9, 0, 0, 0, 2]), at(9)));
        // times to come and those of long ago count for nothing
        for now in [at(4), at(6) + AGE_MAX] {
            let other = RecentHosts::default();
            assert!(other.load(&path, now).unwrap());
            assert_eq!(other.lock().count, 0);
        }
        let mut damaged = std::fs::read(&path).unwrap();
        damaged.extend(b"\xff\x00 9\n10.0.0.9\n10.0.0.8 x\n10.0.0.6 4");
        std::fs::write(&path, damaged).unwrap();
        let damaged = RecentHosts::default();
        assert!(!damaged.load(&path, at(9)).unwrap());
        assert!(damaged.contains(address(0, 7), at(9)) && damaged.contains(address(0, 6), at(9)));
        assert_eq!(damaged.lock().count, 3);
        std::fs::remove_file(&path).unwrap();
    }

    /// A file of the longest lines is read back as a whole, at the time of today.
    #[test]
    fn full_record_is_read_back_from_its_file() {
        let name = format!("recent-hosts-full-{}", std::process::id());
        let (path, now) = (std::env::temp_dir().join(name), unix_seconds());
        assert!(now > 1_700_000_000, "{now}");
        let all: Vec<IpAddr> = (0..4096)
            .map(|nth| [0x2001, 0xdb8f, 0xf000 + nth, 0xffff, 0, 0, 0, 0].into())
            .collect();
        let hosts = RecentHosts::default();
        for host in &all {
            hosts.remember(*host, now);
        }
        hosts.save(&path).unwrap();
        let again = RecentHosts::default();
        let week = 7 * 24 * 3600;
        assert!(again.load(&path, now + week - 1).unwrap());
        assert_eq!(again.lock().count, all.len());
        let is_known = |at| all.iter().filter(|host| again.contains(**host, at)).count();
        assert_eq!((is_known(now + week - 1), is_known(now + week)), (4096, 0));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn one_site_cannot_evict_the_hosts_of_other_sites() {
        let hosts = RecentHosts::default();
        hosts.remember(address(9, 9), at(0));
        // an IPv6 /48 has 65536 networks, each of which counts as a host
        for network in 0..=u16::MAX {
            let address = [0x2001, 0xdb8, 0, network, 0, 0, 0, 1];
            hosts.remember(IpAddr::from(address), at(1 + u64::from(network)));
        }
        assert!(hosts.contains(address(9, 9), at(70_000)));
        assert_eq!(hosts.lock().count, 1 + 256);
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
