//! Public keys of an issuer: a set of JSON Web Keys (RFC 7517, section 5) at a URL.
//!
//! [`Keys`] caches the set. It is fetched again after ten minutes, or when a token names an unknown
//! key. Attempts are 10 s apart, or 3 s without keys, so invented key names cannot flood the
//! issuer. Only the caller that fetches waits; all others use the cached keys:
//!
//! ```text
//! 0 -- fresh -- 10 min -- fetched at next use -- 24 h -- invalid
//! ```
//!
//! Signatures are checked elsewhere.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use tracing::warn;
use ureq::Agent;

use super::checks;
use super::jwk::Jwk;

/// Keys of an issuer. They are fetched at first use, when they are old, and when a token names an
/// unknown key.
#[derive(Debug)]
pub struct Keys {
    /// HTTP client and URL to fetch the keys; `None` if the keys are fixed.
    from: Option<(Agent, String)>,
    kept: Mutex<KeyCache>,
}

#[derive(Debug, Default)]
struct KeyCache {
    keys: Vec<Jwk>,
    /// Time of the last attempt and of the last success, in seconds since 1970.
    tried: Option<u64>,
    fetched: Option<u64>,
}

impl Keys {
    /// Returns the keys at `url`, which `agent` fetches on demand.
    pub fn new(agent: Agent, url: String) -> Self {
        Self {
            from: Some((agent, url)),
            kept: Mutex::default(),
        }
    }

    /// Returns a fixed set of keys. Fails if `set` is not a JSON Web Key Set.
    pub fn fixed(set: &[u8]) -> Result<Self, serde_json::Error> {
        let set: Set = serde_json::from_slice(set)?;
        let kept = KeyCache {
            keys: set.supported().collect(),
            ..KeyCache::default()
        };
        Ok(Self {
            from: None,
            kept: Mutex::new(kept),
        })
    }

    /// Fetches the keys in advance. Returns true if there are any.
    pub fn warm(&self, now: u64) -> bool {
        self.at(now, None).is_some_and(|keys| !keys.is_empty())
    }

    /// Returns the keys at `now`, in seconds since 1970, with the key named `kid` if the issuer has it.
    ///
    /// Blocks one caller at a time while the issuer answers. If it does not answer, known keys stay
    /// valid for a day. Returns `None` if there are no valid keys.
    pub(crate) fn at(&self, now: u64, kid: Option<&str>) -> Option<Vec<Jwk>> {
        let Some((agent, url)) = &self.from else {
            return Some(self.kept().keys.clone());
        };
        // other callers do not wait for this one: tokens with invented key names would delay them
        // all
        if self.kept().should_fetch(now, kid) {
            match fetch(agent, url) {
                Ok(keys) => {
                    let mut kept = self.kept();
                    kept.keys = keys;
                    kept.fetched = Some(now);
                }
                Err(why) => warn!("cannot fetch the keys at {url}: {why}"),
            }
        }
        let kept = self.kept();
        (age(kept.fetched, now) < STALE).then(|| kept.keys.clone())
    }

    fn kept(&self) -> MutexGuard<'_, KeyCache> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fetch(agent: &Agent, url: &str) -> Result<Vec<Jwk>, ureq::Error> {
    let mut response = agent.get(url).call()?;
    let body = response.body_mut().with_config().limit(BYTES_MAX);
    let set: Set = body.read_json()?;
    Ok(set.supported().collect())
}

impl KeyCache {
    /// Returns true if the caller should fetch the keys. Other callers then do not for a while.
    fn should_fetch(&mut self, now: u64, kid: Option<&str>) -> bool {
        let is = |kid: &str| self.keys.iter().any(|key| key.kid.as_deref() == Some(kid));
        let wanted = age(self.fetched, now) >= FRESH || !kid.is_none_or(is);
        let has_some = age(self.fetched, now) < STALE;
        let pause = if has_some { PAUSE } else { PAUSE_WITHOUT };
        let should_fetch = wanted && age(self.tried, now) >= pause;
        if should_fetch {
            self.tried = Some(now);
        }
        should_fetch
    }
}

/// Returns the time since `then` in seconds.
fn age(then: Option<u64>, now: u64) -> u64 {
    then.map_or(u64::MAX, |then| now.saturating_sub(then))
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Jwk>,
}

impl Set {
    /// Returns the keys with a supported algorithm.
    fn supported(self) -> impl Iterator<Item = Jwk> {
        let keys = self.keys.into_iter();
        keys.filter(|key| checks::algorithm(key).is_some())
            .take(KEYS_MAX)
    }
}

/// Age in seconds at which keys are fetched again.
const FRESH: u64 = 600;
/// Age in seconds at which keys are no longer valid.
const STALE: u64 = 86_400;
/// Minimum time in seconds between two attempts to fetch keys.
const PAUSE: u64 = 10;
/// Minimum time in seconds between two attempts while no keys are known.
const PAUSE_WITHOUT: u64 = 3;
const BYTES_MAX: u64 = 1 << 20;
const KEYS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use lighthaul_booking_client::https::fetcher;
    use serde_json::json;

    use super::*;

    fn key(kid: &str) -> Jwk {
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": "AA"});
        serde_json::from_value(key).unwrap()
    }

    /// Starts a server that answers one request for each body, and then closes.
    fn issuer(bodies: &[&'static str]) -> Keys {
        let listener = lighthaul_io::net::tcp::listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let bodies = bodies.to_vec();
        thread::spawn(move || bodies.into_iter().for_each(|body| answer(&listener, body)));
        Keys::new(fetcher().unwrap(), format!("http://{address}/jwks"))
    }

    fn answer(listener: &TcpListener, body: &str) {
        let (mut tcp, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut some = [0; 1024];
            let len = tcp.read(&mut some).unwrap();
            request.extend(&some[..len]);
        }
        let len = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
        tcp.write_all((head + body).as_bytes()).unwrap();
    }

    const ONE: &str = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": "AA"},
                                   {"kty": "oct", "kid": "not for signatures"}]}"#;
    const TWO: &str = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "two", "x": "AA"}]}"#;

    #[test]
    fn keys_are_fetched_again_when_old_or_if_a_token_names_another() {
        let keys = issuer(&[ONE, TWO]);
        assert_eq!(keys.at(1000, None), Some(vec![key("one")]));
        assert_eq!(keys.at(1010, Some("one")), Some(vec![key("one")]));
        assert_eq!(keys.at(1010, Some("two")), Some(vec![key("two")]));
    }

    #[test]
    fn known_keys_stay_valid_for_a_day_without_the_issuer() {
        let keys = issuer(&[ONE]);
        assert!(keys.warm(1000));
        let known = Some(vec![key("one")]);
        assert_eq!(keys.at(1000 + STALE - 1, Some("other")), known);
        assert_eq!(keys.at(1000 + STALE, None), None);
    }

    #[test]
    fn fetching_in_advance_fails_without_keys_or_answer() {
        let empty = issuer(&[r#"{"keys": []}"#]);
        assert!(!empty.warm(0));
        assert_eq!(empty.at(0, None), Some(Vec::new()));
        let away = issuer(&[]);
        assert!(!away.warm(0));
        assert_eq!(away.at(0, None), None);
    }

    #[test]
    fn answer_larger_than_a_mebibyte_is_refused() {
        let blanks = " ".repeat(1 << 20);
        let long = Box::leak(format!("{blanks}{ONE}").into_boxed_str());
        let keys = issuer(&[long, ONE]);
        assert_eq!(keys.at(0, None), None);
        assert_eq!(keys.at(PAUSE_WITHOUT, None), Some(vec![key("one")]));
    }

    #[test]
    fn keys_are_fetched_when_due_and_at_a_limited_rate() {
        let day = 1000 + STALE;
        // times of the last success, the last attempt and the request, and the key that the token names
        for (fetched, tried, now, kid, asks) in [
            (None, None, 0, None, true),
            (None, Some(1000), 1002, Some("k"), false),
            (None, Some(1000), 1003, Some("k"), true),
            (Some(1000), Some(1000), 1599, None, false),
            (Some(1000), Some(1000), 1599, Some("k"), false),
            (Some(1000), Some(1000), 1600, None, true),
            (Some(1000), Some(1000), 1600, Some("k"), true),
            (Some(1000), Some(1600), 1609, None, false),
            (Some(1000), Some(1600), 1610, None, true),
            (Some(1000), Some(1000), 1009, Some("other"), false),
            (Some(1000), Some(1000), 1010, Some("other"), true),
            (Some(1000), Some(1000), 1010, Some("k"), false),
            // the pause with keys that are still valid, and with keys that are not
            (Some(1000), Some(day - 4), day - 1, None, false),
            (Some(1000), Some(day - 3), day, None, true),
            // a clock that was set back is no reason to fetch
            (Some(1000), Some(1000), 900, None, false),
        ] {
            let mut kept = KeyCache {
                keys: vec![key("k")],
                tried,
                fetched,
            };
            let about = format!("fetched {fetched:?}, tried {tried:?}, {kid:?} at {now}");
            assert_eq!(kept.should_fetch(now, kid), asks, "{about}");
            assert_eq!(kept.tried, if asks { Some(now) } else { tried }, "{about}");
            assert!(!kept.should_fetch(now, kid), "asked again at once: {about}");
        }
    }
}
