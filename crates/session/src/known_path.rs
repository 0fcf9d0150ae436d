//! Known paths: rates that earlier copies have measured.
//!
//! A copy that would take a few seconds need not measure again. It explores the path like any other, so datagrams that
//! no longer pass are noticed, and the rate falls with the first losses.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::unix_nanos;

use crate::session::Session;

/// Time after which a path is measured again.
pub const AGE_MAX: Duration = Duration::from_hours(1);
/// Longest copy that relies on an earlier measurement, by its bytes and the known rate.
pub const COPY_MAX: Duration = Duration::from_secs(10);
/// Maximum number of paths that are kept.
const PATHS_MAX: usize = 256;

/// Ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathEnds {
    /// Key of the peer.
    pub key: Fingerprint,
    /// Address of the other host.
    pub address: IpAddr,
    /// Address of this host, which changes with its network.
    pub local: IpAddr,
}

impl PathEnds {
    /// Returns the ends of a session.
    pub fn of(session: &Session) -> Self {
        Self {
            key: session.peer,
            address: session.peer_address().ip(),
            local: session.control.local().ip(),
        }
    }
}

/// Measured path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPath {
    /// Rate on the wire that was used.
    pub rate: Rate,
    /// Lost datagrams of the measurement, in parts per million.
    pub lost_ppm: u32,
    /// Time of the measurement, in seconds since 1970.
    pub at: u64,
}

impl KnownPath {
    /// Returns a path that was measured now.
    pub fn now(rate: Rate, lost_ppm: u32) -> Self {
        Self {
            rate,
            lost_ppm,
            at: unix_seconds(),
        }
    }

    /// Returns true if the measurement is recent. One from the future is not: a clock was wrong.
    pub fn is_recent(&self, now: u64) -> bool {
        let age = now.checked_sub(self.at);
        age.is_some_and(|age| age < AGE_MAX.as_secs())
    }

    /// Returns the path to keep after a copy, over which the path has carried the rate `carried`. That rate varies around
    /// the path's rate, and is only a part of it if others used the path.
    ///
    /// So a lower rate beside others keeps the path's rate. Otherwise it would fall with each copy to what the last one
    /// got. A copy of a second does not rise far above the rate that it starts from. A rate far below the kept one counts
    /// half on a path without others, since it may be that of a moment.
    #[must_use]
    pub fn after(&self, carried: Rate, are_others: bool) -> Self {
        let rate = if carried > self.rate.scaled(4, 3) {
            carried
        } else if carried < self.rate.scaled(3, 4) && !are_others {
            let sum = u128::from(self.rate.as_bps()) + u128::from(carried.as_bps());
            Rate::from_bps((sum / 2) as u64).unwrap_or(carried)
        } else {
            self.rate
        };
        Self { rate, ..*self }
    }

    /// Returns true if a copy of `bytes` may rely on the measurement.
    pub fn suits(&self, bytes: u64) -> bool {
        self.rate != Rate::UNLIMITED && bytes <= self.rate.bytes_in(COPY_MAX)
    }
}

/// Memory of paths, for copies that follow.
pub trait PathMemory: Debug + Send + Sync {
    /// Returns the path between `ends`, if a recent copy has measured it.
    fn recall(&self, ends: PathEnds) -> Option<KnownPath>;

    /// Keeps the path between `ends`.
    fn keep(&self, ends: PathEnds, path: KnownPath);
}

/// Paths in memory.
#[derive(Debug, Default)]
pub struct Paths(Mutex<BTreeMap<PathEnds, KnownPath>>);

impl Paths {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathEnds, KnownPath>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PathMemory for Paths {
    fn recall(&self, ends: PathEnds) -> Option<KnownPath> {
        let path = self.lock().get(&ends).copied();
        path.filter(|path| path.is_recent(unix_seconds()))
    }

    fn keep(&self, ends: PathEnds, path: KnownPath) {
        let mut paths = self.lock();
        paths.insert(ends, path);
        forget(&mut paths);
    }
}

/// Removes the oldest of too many paths.
pub fn forget(paths: &mut BTreeMap<PathEnds, KnownPath>) {
    while paths.len() > PATHS_MAX {
        let oldest = paths.iter().min_by_key(|(_, path)| path.at);
        let Some(oldest) = oldest.map(|(ends, _)| *ends) else {
            return;
        };
        paths.remove(&oldest);
    }
}

/// Returns the seconds since 1970.
pub fn unix_seconds() -> u64 {
    unix_nanos() / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn far(nth: u32) -> PathEnds {
        PathEnds {
            key: Fingerprint::from_octets([7; 32]),
            address: Ipv4Addr::from(nth).into(),
            local: Ipv4Addr::LOCALHOST.into(),
        }
    }

    #[test]
    fn path_is_known_for_an_hour_by_a_correct_clock() {
        let path = KnownPath {
            at: 10_000,
            ..KnownPath::now(Rate::from_mbps(100), 0)
        };
        assert!(path.is_recent(10_000) && path.is_recent(13_599));
        assert!(!path.is_recent(13_600) && !path.is_recent(9_999));
    }

    #[test]
    fn only_short_copies_rely_on_a_known_rate() {
        let path = KnownPath::now(Rate::from_mbps(8), 0);
        assert!(path.suits(10_000_000) && !path.suits(10_000_001));
        assert!(!KnownPath::now(Rate::UNLIMITED, 0).suits(1));
    }

    #[test]
    fn varying_rate_keeps_the_measured_rate() {
        let path = KnownPath::now(Rate::from_mbps(1000), 0);
        for (carried, kept) in [(749, 874), (750, 1000), (1333, 1000), (1334, 1334)] {
            let after = path.after(Rate::from_mbps(carried), false);
            assert_eq!(after.rate.as_bps() / 1_000_000, kept);
            assert_eq!(
                KnownPath {
                    rate: path.rate,
                    ..after
                },
                path
            );
        }
    }

    #[test]
    fn share_of_a_path_does_not_lower_its_rate() {
        let path = KnownPath::now(Rate::from_mbps(1000), 0);
        for (carried, kept) in [(50, 1000), (749, 1000), (1333, 1000), (1334, 1334)] {
            let after = path.after(Rate::from_mbps(carried), true);
            assert_eq!(after.rate, Rate::from_mbps(kept));
        }
    }

    #[test]
    fn oldest_paths_are_forgotten() {
        let paths = Paths::default();
        let path = |nth| KnownPath {
            at: unix_seconds() - 1000 + u64::from(nth),
            ..KnownPath::now(Rate::from_mbps(1), 0)
        };
        (0..300).for_each(|nth| paths.keep(far(nth), path(nth)));
        assert_eq!(paths.recall(far(43)), None);
        assert_eq!(paths.recall(far(44)), Some(path(44)));
        assert_eq!(paths.lock().len(), PATHS_MAX);
    }
}
