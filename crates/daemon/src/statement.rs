//! What an authority signs for a key: its holder may call, as whom, to do what and until when.
//!
//! The octets are the authority's public key, its signature (Ed25519), and the claim. It is of use to the
//! holder of the one key that it names, who proves in the TLS handshake to be that.

use data_encoding::BASE64URL_NOPAD;
use lighthaul_io::crypto::identity::{Fingerprint, Identity, PUBLIC_LEN, SIGNATURE_LEN, is_signed};
use serde::{Deserialize, Serialize};

use crate::rights::Rights;

/// Keeps what is signed here from being taken for anything else that the key may sign.
const LABEL: &[u8] = b"lighthaul statement 3\0";

/// What is signed.
#[expect(clippy::struct_excessive_bools, reason = "each is a right of its own")]
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

/// Why a statement lets nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotValid {
    /// The octets make no sense.
    #[error("it is no statement")]
    Octets,
    /// The signature is not that of the authority.
    #[error("its signature is wrong")]
    Signature,
    /// It is about somebody else's key.
    #[error("it was made for another key")]
    Key,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
}

/// Says as `authority` that the holder of `key` has `rights`, until `expires` in seconds since 1970.
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

/// What the statement in `octets` says of the holder of `key` at `now`, and whose word that is. Whether
/// that word counts is for the caller to decide.
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

/// A statement as people pass it on.
pub fn to_text(octets: &[u8]) -> String {
    BASE64URL_NOPAD.encode(octets)
}

/// The octets of a statement that people passed on.
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
    fn a_statement_says_what_was_signed_for_the_one_key_until_its_end() {
        let (authority, key, octets) = signed();
        let octets = from_text(&to_text(&octets)).unwrap();
        let (whose, rights) = read(&octets, key, 99).unwrap();
        assert_eq!(whose, print(&authority));
        assert_eq!(rights.to_string(), "alice root=data ro expires=100");
        assert_eq!(read(&octets, key, 100), Err(NotValid::Expired));
        assert_eq!(read(&octets, print(&authority), 99), Err(NotValid::Key));
    }

    #[test]
    fn no_octet_can_be_changed() {
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
