//! First octets of a caller, and credentials that callers show a daemon besides their key.

use lighthaul_daemon::client_hello::ClientHello;
use lighthaul_daemon::statement::{NotValid, from_text, read};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};

/// Looks at the first octets of a caller, as they come one by one. What is waited for is more than there is, and bounded;
/// a verdict stays, whatever follows.
pub fn client_hello(octets: &[u8]) {
    let octets = &octets[..octets.len().min(2 * ClientHello::LEN_MAX)];
    let mut verdict = None;
    for len in 0..=octets.len() {
        let now = ClientHello::of(&octets[..len]);
        assert!(
            verdict.is_none_or(|verdict| verdict == now),
            "{verdict:?}, {now:?}"
        );
        if let ClientHello::Part(whole) = now {
            assert!(
                whole > len && whole <= ClientHello::LEN_MAX,
                "{whole} of {len}"
            );
        } else {
            verdict = Some(now);
        }
    }
}

/// Reads a statement as it came, and one whose authority has signed these very octets as its claim. Whoever is let in
/// is so for one key, and until the statement ends.
pub fn statement(octets: &[u8]) {
    let authority = Identity::generate();
    let key = Fingerprint::of_public(&authority.public());
    assert!(read(octets, key, 0).is_err(), "nobody has signed that");
    from_text(&String::from_utf8_lossy(octets)).ok();
    // the claim begins with the key that it is about
    let claim = [key.octets().as_slice(), octets].concat();
    let signature = authority.sign(&[LABEL, &claim].concat());
    let signed = [&authority.public()[..], &signature, &claim].concat();
    if let Ok((whose, rights)) = read(&signed, key, 0) {
        assert_eq!(whose, key);
        let end = rights.expires.expect("what is signed ends");
        assert_eq!(read(&signed, key, end), Err(NotValid::Expired));
        let other = Fingerprint::of_public(&Identity::generate().public());
        assert_eq!(read(&signed, other, 0), Err(NotValid::Key));
    }
}

/// Prefix that keeps a statement from being taken for anything else that was signed.
const LABEL: &[u8] = b"lighthaul statement 3\0";
