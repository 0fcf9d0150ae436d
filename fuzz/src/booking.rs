//! Decoders of a scheduler and its clients: signed tokens, keys of issuers, requests and replies.

use data_encoding::BASE64URL_NOPAD;
use lighthaul_booking::books::JobPlace;
use lighthaul_booking_client::json::{Change, Event, NewJob, NewReservation, Reservation};
use lighthaul_scheduler::identity::jwt::TokenError;
use lighthaul_scheduler::identity::{AuthError, Authenticator, Issuer, Keys};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads an issuer's keys, and a token after a zero octet. A rejected token has an error message.
pub fn token(octets: &[u8]) {
    let mut parts = octets.splitn(2, |octet| *octet == 0);
    let (set, token) = (parts.next().unwrap_or_default(), parts.next());
    let keys = Keys::fixed(set).or_else(|_| Keys::fixed(&own_keys()));
    let keys = keys.expect("our own keys can be read");
    let text = String::from_utf8_lossy(token.unwrap_or(set)).into_owned();
    if let Err(why) = authenticator(keys).authenticate(Some(&format!("Bearer {text}")), NOW) {
        assert!(!why.to_string().is_empty());
    }
}

/// Reads claims that our issuer has signed. They identify the admitted client, and have not
/// expired.
pub fn claims(octets: &[u8]) {
    let head = BASE64URL_NOPAD.encode(br#"{"alg":"EdDSA"}"#);
    let signed = format!("{head}.{}", BASE64URL_NOPAD.encode(octets));
    let signature = BASE64URL_NOPAD.encode(pair().sign(signed.as_bytes()).as_ref());
    let keys = Keys::fixed(&own_keys()).expect("our own keys can be read");
    match authenticator(keys).authenticate(Some(&format!("Bearer {signed}.{signature}")), NOW) {
        Ok(who) => {
            let said: serde_json::Value =
                serde_json::from_slice(octets).expect("the claims were read");
            assert_eq!(said["iss"], ISSUER);
            assert!(said["exp"].as_u64().is_some_and(|end| end > NOW - 60));
            let subject = said["sub"].as_str().expect("the claims have a subject");
            assert_eq!(who.name, format!("{subject}@issuer.example"));
        }
        Err(why) => assert_ne!(why, AuthError::InvalidToken(TokenError::Signature)),
    }
}

/// Reads the key set of an issuer.
pub fn key_set(octets: &[u8]) {
    if let Err(why) = Keys::fixed(octets) {
        assert!(!why.to_string().is_empty());
    }
}

/// Reads a request. What was read stays the same when it is written and read again.
pub fn asked(octets: &[u8]) {
    crosses_again::<NewReservation>(octets);
    crosses_again::<Change>(octets);
    crosses_again::<NewJob>(octets);
    if let Ok(text) = std::str::from_utf8(octets)
        && let Ok(place) = text.parse::<JobPlace>()
    {
        assert_eq!(place.to_string().parse(), Ok(place.clone()));
        // a place is within the home of one user at most
        let home: JobPlace = "lh://far/home/{user}/".parse().expect("it is a rule");
        assert!(!home.permits(&place, "ada") || text.starts_with("lh://far/home/ada"));
        assert!(!(home.permits(&place, "ada") && home.permits(&place, "bob")));
    }
}

/// Reads a reply of a scheduler. What was read stays the same when it is written and read again.
pub fn answered(octets: &[u8]) {
    crosses_again::<Event>(octets);
    crosses_again::<Reservation>(octets);
}

fn crosses_again<T: DeserializeOwned + Serialize>(octets: &[u8]) {
    if let Ok(read) = serde_json::from_slice::<T>(octets) {
        let text = serde_json::to_string(&read).expect("what was read can be written");
        let again: T = serde_json::from_str(&text).expect("what was written can be read");
        assert_eq!(
            serde_json::to_string(&again).expect("and written again"),
            text
        );
    }
}

fn authenticator(keys: Keys) -> Authenticator {
    let issuer = Issuer {
        name: ISSUER.to_owned(),
        audiences: vec!["lighthaul".to_owned()],
        users: Some("book".to_owned()),
        operators: Some("operate".to_owned()),
        admins: None,
    };
    Authenticator {
        tokens: None,
        issuer: Some((issuer, keys)),
    }
}

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("any seed is a key")
}

/// Returns a set with the key of [`pair`].
fn own_keys() -> Vec<u8> {
    let public = BASE64URL_NOPAD.encode(pair().public_key().as_ref());
    format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{public}"}}]}}"#).into_bytes()
}

const ISSUER: &str = "https://issuer.example/";
const NOW: u64 = 2_000_000_000;
