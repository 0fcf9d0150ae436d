//! Statements: rights that an authority signed for one key, until a time of expiry.
//!
//! A statement is the authority's public key, its Ed25519 signature, and the signed claim. Only the holder of the named
//! key can use it, since the TLS handshake proves the possession of the key.

use data_encoding::BASE64URL_NOPAD;
use lighthaul_io::crypto::identity::{Fingerprint, Identity, PUBLIC_LEN, SIGNATURE_LEN, is_signed};
use serde::{Deserialize, Serialize};

use crate::rights::Rights;

/// Prefix of the signed octets, so that no other signature of the key is a valid statement.
const LABEL: &[u8] = b"lighthaul statement 3\0";

/// Signed part of a statement.
#[expect(clippy::struct_excessive_bools, reason = "independent rights")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    key: [u8; 32],
    name: String,
    root: Option<String>,
    read_only: bool,
    owners: bool,
    special: bool,
    gateway: bool,
    expires: u64,
}

/// Reason why a statement is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotValid {
    /// The octets are malformed.
    #[error("it is not a statement")]
    Octets,
    /// The signature is not that of the authority.
    #[error("its signature is wrong")]
    Signature,
    /// The statement names another key.
    #[error("it was made for another key")]
    Key,
    /// The time of expiry has passed.
    #[error("it has expired")]
    Expired,
}

/// Signs, as `authority`, a statement with `rights` for `key` that expires at `expires`, in seconds since 1970.
pub fn sign(authority: &Identity, key: Fingerprint, rights: &Rights, expires: u64) -> Vec<u8> {
    let claim = Claim {
        key: *key.octets(),
        name: rights.name.clone(),
        root: rights.root.as_ref().map(|root| root.display().to_string()),
        read_only: rights.read_only,
        owners: rights.owners,
        special: rights.special,
        gateway: rights.gateway,
        expires,
    };
    let claim = postcard::to_allocvec(&claim).unwrap_or_default();
    let signature = authority.sign(&[LABEL, &claim].concat());
    [&authority.public()[..], &signature, &claim].concat()
}

/// Checks the statement in `octets` of the holder of `key` at `now`. Returns the authority and the claimed rights. The
/// caller decides if the authority is trusted.
pub fn read(octets: &[u8], key: Fingerprint, now: u64) -> Result<(Fingerprint, Rights), NotValid> {
    let (authority, rest) = octets
        .split_first_chunk::<PUBLIC_LEN>()
        .ok_or(NotValid::Octets)?;
    let (signature, claim) = rest
        .split_first_chunk::<SIGNATURE_LEN>()
        .ok_or(NotValid::Octets)?;
    if !is_signed(authority, &[LABEL, claim].concat(), signature) {
        return Err(NotValid::Signature);
    }
    let Ok((claim, [])) = postcard::take_from_bytes::<Claim>(claim) else {
        return Err(NotValid::Octets);
    };
    if claim.key != *key.octets() {
        return Err(NotValid::Key);
    }
    if now >= claim.expires {
        return Err(NotValid::Expired);
    }
    let rights = Rights {
        name: claim.name,
        root: claim.root.map(Into::into),
        read_only: claim.read_only,
        owners: claim.owners,
        special: claim.special,
        gateway: claim.gateway,
        expires: Some(claim.expires),
        ..Rights::default()
    };
    Ok((Fingerprint::of_public(authority), rights))
}

/// Encodes a statement as text.
pub fn to_text(octets: &[u8]) -> String {
    BASE64URL_NOPAD.encode(octets)
}

/// Decodes a statement from its text.
pub fn from_text(text: &str) -> Result<Vec<u8>, NotValid> {
    BASE64URL_NOPAD
        .decode(text.trim().as_bytes())
        .map_err(|_| NotValid::Octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn print(identity: &Identity) -> Fingerprint {
        Fingerprint::of_public(&identity.public())
    }

    fn signed() -> (Identity, Fingerprint, Vec<u8>) {
        let (authority, key) = (Identity::generate(), print(&Identity::generate()));
        let rights = Rights::parse("alice root=data ro").unwrap();
        let octets = sign(&authority, key, &rights, 100);
        (authority, key, octets)
    }

    #[test]
    fn statement_has_the_signed_rights_for_one_key_until_it_expires() {
        let (authority, key, octets) = signed();
        let octets = from_text(&to_text(&octets)).unwrap();
        let (whose, rights) = read(&octets, key, 99).unwrap();
        assert_eq!(whose, print(&authority));
        assert_eq!(rights.to_string(), "alice root=data ro expires=100");
        assert_eq!(read(&octets, key, 100), Err(NotValid::Expired));
        assert_eq!(read(&octets, print(&authority), 99), Err(NotValid::Key));
    }

    #[test]
    fn only_signed_rights_are_granted() {
        let (authority, key) = (Identity::generate(), print(&Identity::generate()));
        for right in ["owners", "special", "gateway", "ro"] {
            let rights = Rights::parse(&format!("alice {right}")).unwrap();
            let octets = sign(&authority, key, &rights, 100);
            let (_, granted) = read(&octets, key, 99).unwrap();
            assert_eq!(granted.to_string(), format!("alice {right} expires=100"));
        }
    }

    #[test]
    fn changed_statement_is_refused() {
        let (_, key, octets) = signed();
        for at in 0..octets.len() {
            let mut changed = octets.clone();
            changed[at] ^= 1;
            assert_eq!(read(&changed, key, 99), Err(NotValid::Signature), "{at}");
        }
        assert!(read(&octets[..95], key, 99).is_err());
    }

    proptest! {
        #[test]
        fn any_octets_are_read_without_panic(octets: Vec<u8>, text: String) {
            prop_assert!(read(&octets, print(&Identity::generate()), 0).is_err());
            from_text(&text).ok();
        }
    }
}
