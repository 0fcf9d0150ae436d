//! Keys that were refused.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use lighthaul_io::crypto::identity::Fingerprint;

/// Keys that were refused, so that each is logged once and not with every call.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    keys: Mutex<BTreeSet<Fingerprint>>,
}

impl Refused {
    /// Whether `key` is refused for the first time; beyond so many keys, nobody is told any more.
    pub(crate) fn is_news(&self, key: Fingerprint) -> bool {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.len() < KEYS_MAX && keys.insert(key)
    }
}

/// Keys are made in no time; a log has an end.
const KEYS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refused_key_is_logged_once_and_no_more_than_so_many() {
        let refused = Refused::default();
        let key = |nth: usize| Fingerprint::of_token(&nth.to_string());
        for nth in 0..KEYS_MAX {
            assert!(refused.is_news(key(nth)), "{nth}");
            assert!(!refused.is_news(key(nth)), "{nth}");
        }
        assert!(!refused.is_news(key(KEYS_MAX)) && !refused.is_news(key(KEYS_MAX + 1)));
    }
}
