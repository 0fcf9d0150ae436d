//! Keys that were refused.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;
use lighthaul_io::crypto::identity::Fingerprint;

/// Keys that were refused lately, so that each is logged once and not with every call.
#[derive(Debug, Default)]
pub(crate) struct RefusedKeys {
    /// In the order in which they came.
    keys: Mutex<VecDeque<RefusedKey>>,
}

#[derive(Debug)]
struct RefusedKey {
    key: Fingerprint,
    site: Prefix,
    since: Instant,
}

impl RefusedKeys {
    /// Returns true if `key`, which was shown from address `from`, is to be logged. Where there is no room for it, the
    /// oldest key is forgotten, once it is a minute old: one of the same site if that has its share.
    pub(crate) fn is_new(&self, key: Fingerprint, from: IpAddr, now: Instant) -> bool {
        let [_, _, site] = Prefix::all(from);
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.iter().any(|known| known.key == key) {
            return false;
        }
        let of_site = keys.iter().filter(|known| known.site == site);
        let oldest = if of_site.count() >= KEYS_SITE_MAX {
            keys.iter().position(|known| known.site == site)
        } else {
            (keys.len() >= KEYS_MAX).then_some(0)
        };
        if let Some(oldest) = oldest {
            let is_old = |known: &RefusedKey| now.since(known.since) >= AGE;
            if !keys.get(oldest).is_some_and(is_old) {
                return false;
            }
            keys.remove(oldest);
        }
        let since = now;
        keys.push_back(RefusedKey { key, site, since });
        true
    }
}

/// Keys that are remembered, and those of one site: keys are made in no time, and a log has an end.
const KEYS_MAX: usize = 1000;
const KEYS_SITE_MAX: usize = 100;
/// Time for which no other key takes the place of a refused key.
const AGE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refused_key_is_logged_once_and_no_site_silences_others() {
        let refused = RefusedKeys::default();
        let key = |nth: usize| Fingerprint::of_token(&nth.to_string());
        let (greedy, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 1, 1]));
        let now = Instant::ZERO;
        for nth in 0..KEYS_SITE_MAX {
            assert!(refused.is_new(key(nth), greedy, now), "{nth}");
            assert!(!refused.is_new(key(nth), greedy, now), "{nth}");
        }
        for nth in KEYS_SITE_MAX..3 * KEYS_MAX {
            assert!(!refused.is_new(key(nth), greedy, now), "{nth}");
        }
        assert!(refused.is_new(key(9_999), other, now));
        // an old key makes room, of the same site first
        let later = now + AGE;
        assert!(refused.is_new(key(10_000), greedy, later));
        assert!(!refused.is_new(key(9_999), other, later));
    }

    #[test]
    fn full_list_of_refused_keys_forgets_the_oldest_after_a_minute() {
        let refused = RefusedKeys::default();
        let key = |nth: usize| Fingerprint::of_token(&nth.to_string());
        let site = |nth: usize| IpAddr::from([10, 0, nth as u8, 1]);
        for nth in 0..KEYS_MAX {
            assert!(refused.is_new(key(nth), site(nth / 50), Instant::ZERO));
        }
        let news = |now| refused.is_new(key(KEYS_MAX), site(200), now);
        assert!(!news(Instant::ZERO + AGE / 2));
        assert!(news(Instant::ZERO + AGE) && !news(Instant::ZERO + AGE));
        assert_eq!(refused.keys.lock().unwrap().len(), KEYS_MAX);
        assert!(
            refused.is_new(key(0), site(0), Instant::ZERO + AGE),
            "forgotten"
        );
    }
}
