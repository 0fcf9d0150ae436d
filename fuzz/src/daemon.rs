//! Decoders of a daemon: the first octets of a client, credentials, and requests for metrics.

use lighthaul_daemon::client_hello::ClientHello;
use lighthaul_daemon::scrape_request::ScrapeRequest;
use lighthaul_daemon::statement::{NotValid, from_text, read};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};

/// Reads the first octets of a client as they arrive one by one. The awaited length is bounded and
/// exceeds the octets so far. A decision never changes with later octets.
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

/// Reads a statement, and one whose authority has signed these octets as its claim. A valid
/// statement is for one key, and ends.
pub fn statement(octets: &[u8]) {
    let authority = Identity::generate();
    let key = Fingerprint::of_public(&authority.public());
    assert!(read(octets, key, 0).is_err(), "the octets are not signed");
    from_text(&String::from_utf8_lossy(octets)).ok();
    // the claim begins with the key that it is for
    let claim = [key.octets().as_slice(), octets].concat();
    let signature = authority.sign(&[LABEL, &claim].concat());
    let signed = [&authority.public()[..], &signature, &claim].concat();
    if let Ok((whose, rights)) = read(&signed, key, 0) {
        assert_eq!(whose, key);
        let end = rights.expires.expect("a signed statement ends");
        assert_eq!(read(&signed, key, end), Err(NotValid::Expired));
        let other = Fingerprint::of_public(&Identity::generate().public());
        assert_eq!(read(&signed, other, 0), Err(NotValid::Key));
    }
}

/// Reads the request of a scraper. What follows its first line makes no difference, and only one path has
/// metrics.
pub fn scrape_request(octets: &[u8]) {
    for head in [octets.to_vec(), [b"GET /metrics", octets].concat()] {
        let request = ScrapeRequest::of(&head);
        let len = head.iter().position(|octet| *octet == b'\r');
        let line = &head[..len.unwrap_or(head.len())];
        assert_eq!(ScrapeRequest::of(line), request);
        let more = [line, b"\r\nHost: x\r\n\r\n"].concat();
        assert_eq!(ScrapeRequest::of(&more), request);
        let is_for_metrics = line == b"GET /metrics" || line.starts_with(b"GET /metrics ");
        assert_eq!(request == ScrapeRequest::Metrics, is_for_metrics);
        let is_other = request == ScrapeRequest::OtherMethod;
        assert_eq!(is_other, !line.starts_with(b"GET "));
    }
}

/// Prefix that distinguishes a statement from other signed data.
const LABEL: &[u8] = b"lighthaul statement 3\0";
