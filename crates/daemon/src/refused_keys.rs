//! Keys that were refused recently, so that each is logged only once.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;
use lighthaul_io::crypto::identity::Fingerprint;

/// Keys that were refused recently; each is logged once, not at every connection.
#[derive(Debug, Default)]
pub(crate) struct RefusedKeys {
    /// Keys in the order of their first refusal.
    keys: Mutex<VecDeque<RefusedKey>>,
}

#[derive(Debug)]
struct RefusedKey {
    key: Fingerprint,
    site: Prefix,
    since: Instant,
}

impl RefusedKeys {
    /// Returns true if the refusal of `key`, shown from address `from`, must be logged. If the list is full, the oldest
    /// key is replaced once it is a minute old. A site with its whole share replaces its own keys.
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
            let is_old = |known: &RefusedKey| now.since(known.since) >= AGE_MIN;
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

/// Maximum number of keys in total. Keys cost nothing to create, and the log must stay bounded.
const KEYS_MAX: usize = 1000;
/// Maximum number of keys of one site.
const KEYS_SITE_MAX: usize = 100;
/// Age at which a key may be replaced.
const AGE_MIN: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_key_is_logged_once_and_each_site_has_its_share() {
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
        // old keys are replaced, those of the same site first
        let later = now + AGE_MIN;
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
        assert!(!news(Instant::ZERO + AGE_MIN / 2));
        assert!(news(Instant::ZERO + AGE_MIN) && !news(Instant::ZERO + AGE_MIN));
        assert_eq!(refused.keys.lock().unwrap().len(), KEYS_MAX);
        assert!(
            refused.is_new(key(0), site(0), Instant::ZERO + AGE_MIN),
            "forgotten"
        );
    }
}
