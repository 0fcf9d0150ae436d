//! Sites with a connection that was not admitted in the last minutes. When handshakes are many, they are served last.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;

/// Sites in the record. Beyond that, the one that failed longest ago is forgotten.
const SITES_MAX: usize = 1 << 14;
/// Time for which a failure counts.
const AGE_MAX: Duration = Duration::from_mins(10);

/// Record of the sites that failed, and when.
#[derive(Debug, Default)]
pub(crate) struct FailedSites(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    sites: BTreeMap<Prefix, Instant>,
    by_time: BTreeSet<(Instant, Prefix)>,
}

impl FailedSites {
    /// Records the site of `address`, from which a connection was not admitted at `now`.
    pub(crate) fn add(&self, address: IpAddr, now: Instant) {
        let [_, _, site] = Prefix::all(address);
        let mut record = self.lock();
        record.remove(site);
        record.sites.insert(site, now);
        record.by_time.insert((now, site));
        if record.sites.len() > SITES_MAX
            && let Some((_, oldest)) = record.by_time.first().copied()
        {
            record.remove(oldest);
        }
    }

    /// Forgets the failures of the site of `address`, since a client from the site was admitted.
    pub(crate) fn remove(&self, address: IpAddr) {
        let [_, _, site] = Prefix::all(address);
        self.lock().remove(site);
    }

    /// Reports whether a connection from the site of `address` has failed lately.
    pub(crate) fn contains(&self, address: IpAddr, now: Instant) -> bool {
        let [_, _, site] = Prefix::all(address);
        let at = self.lock().sites.get(&site).copied();
        at.is_some_and(|at| now.since(at) < AGE_MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn remove(&mut self, site: Prefix) {
        if let Some(at) = self.sites.remove(&site) {
            self.by_time.remove(&(at, site));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn address(site: u16) -> IpAddr {
        let [high, low] = site.to_be_bytes();
        [10, high, low, 1].into()
    }

    #[test]
    fn failure_is_remembered_for_some_minutes_or_until_an_admission() {
        let failed = FailedSites::default();
        failed.add(address(1), at(5));
        failed.add(address(2), at(5));
        assert!(failed.contains(address(1), at(6)) && !failed.contains(address(3), at(6)));
        failed.remove(address(2));
        assert!(!failed.contains(address(2), at(6)));
        assert!(!failed.contains(address(1), at(5) + AGE_MAX));
    }

    #[test]
    fn record_is_bounded() {
        let failed = FailedSites::default();
        for site in 0..=SITES_MAX as u16 {
            failed.add(address(site), at(5 + u64::from(site)));
            failed.add(address(site), at(6 + u64::from(site)));
        }
        let record = failed.lock();
        assert_eq!(
            (record.sites.len(), record.by_time.len()),
            (SITES_MAX, SITES_MAX)
        );
        drop(record);
        let now = at(SITES_MAX as u64);
        assert!(failed.contains(address(SITES_MAX as u16), now));
        assert!(
            !failed
                .lock()
                .sites
                .contains_key(&Prefix::all(address(0))[2])
        );
    }
}
