//! Fuzz targets on stable Rust: random octets, valid-looking octets, and the inputs of the seed corpus.

#![expect(unreachable_pub, reason = "the targets belong to another crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/gateway.rs"]
mod gateway;
#[path = "../../../fuzz/harmless.rs"]
mod harmless;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 8] = [
    ("address_arp", gateway::arp),
    ("address_sockets", gateway::sockets),
    ("capture_socks", gateway::socks),
    ("capture_connect", gateway::connect),
    ("target", gateway::target),
    ("target_rules", gateway::target_rules),
    ("local_address", gateway::local_address),
    ("messages", gateway::messages),
];

/// Returns SOCKS5 conversations, most of them valid.
fn socks() -> impl Strategy<Value = Vec<u8>> {
    let greeting = prop_oneof![
        Just(b"\x05\x01\0".to_vec()),
        Just(b"\x05\x02\0\x02".to_vec())
    ];
    let password = prop_oneof![
        Just(b"\x01\x05alice\x06secret".to_vec()),
        Just(b"\x01\0\x02xx".to_vec()),
        Just(Vec::new())
    ];
    let host = prop_oneof![
        Just(b"\x01\x0a\0\0\x01".to_vec()),
        Just(b"\x03\x03a.b".to_vec()),
        any::<[u8; 16]>().prop_map(|octets| [&[4][..], &octets].concat()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    let rest = prop::collection::vec(any::<u8>(), 0..6);
    (any::<u8>(), greeting, password, 0_u8..4, host, rest).prop_map(
        |(first, greeting, password, command, host, rest)| {
            let request = [5, command, 0];
            [&[first][..], &greeting, &password, &request, &host, &rest].concat()
        },
    )
}

/// Returns HTTP requests, most of them valid.
fn requests() -> impl Strategy<Value = String> {
    "[\u{0}-\u{20}](\r\n)?(CONNECT|GET) (a\\.b:443|\\[::1\\]:[0-9]{0,5}|[!-~]{0,9}) HTTP/1\\.[0-2]\r?\n\
     ((Host|Content-Length|Proxy-Authorization): (0|x|Basic YWxpY2U6c2VjcmV0)\r?\n){0,3}\r?\n[ -~]{0,9}"
}

proptest! {
    #[test]
    fn random_handshakes_never_panic(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(gateway::socks, &octets);
        assert_harmless(gateway::connect, &octets);
        assert_harmless(gateway::target, &octets);
        assert_harmless(gateway::messages, &octets);
        assert_harmless(gateway::arp, &octets);
    }

    #[test]
    fn valid_looking_messages_never_panic(hops: u8, kind in 1_u8..5, rest in prop::collection::vec(any::<u8>(), 0..40)) {
        assert_harmless(gateway::messages, &[&[hops, kind], &rest[..]].concat());
        assert_harmless(gateway::messages, &[&[kind], &rest[..]].concat());
    }

    #[test]
    fn socks_messages_are_parsed_in_any_pieces(octets in socks()) {
        assert_harmless(gateway::socks, &octets);
    }

    #[test]
    fn http_requests_are_parsed_in_any_pieces(text in requests()) {
        assert_harmless(gateway::connect, text.as_bytes());
    }

    #[test]
    fn random_targets_never_panic(name in "[0-9a-zA-Z.x:_-]{0,20}", port: u16) {
        let octets = [&[3, name.len() as u8][..], name.as_bytes(), &port.to_be_bytes()].concat();
        assert_harmless(gateway::target, &octets);
    }

    #[test]
    fn random_frames_never_panic(kind in 0_u8..3, rest in prop::collection::vec(any::<u8>(), 0..40)) {
        let head = [&[0; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, kind]].concat();
        assert_harmless(gateway::arp, &[head, rest].concat());
    }

    #[test]
    fn random_answers_about_routes_never_panic(kind in prop::sample::select(vec![2_u16, 24, 26]), rest in prop::collection::vec(any::<u8>(), 0..40)) {
        assert_harmless(gateway::local_address, &rest);
        assert_harmless(gateway::local_address, &[&[0; 4][..], &kind.to_ne_bytes(), &rest].concat());
    }

    #[test]
    fn random_lists_of_sockets_never_panic(text in "\\PC{0,60}| [0-9]{1,3}: [0-9A-Fa-f]{0,33}:[0-9A-F]{4} [0-9A-F]{8}:[0-9A-F]{4} [0-9A-F]{0,3}( .{0,9})?") {
        assert_harmless(gateway::sockets, text.as_bytes());
    }

    #[test]
    fn random_rules_never_panic(text in "\\PC{0,30}|[0-9a-f.:*\\[\\]/-]{0,30}") {
        assert_harmless(gateway::target_rules, text.as_bytes());
    }
}

#[test]
fn seed_corpus_never_panics() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
