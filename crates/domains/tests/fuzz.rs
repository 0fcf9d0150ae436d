//! The fuzz targets of the control socket on stable Rust, with random octets, lines that are nearly right, and the
//! seeds kept in the repository.

#![expect(unreachable_pub, reason = "the bodies belong to a separate crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/domains.rs"]
mod domains;
#[path = "../../../fuzz/harmless.rs"]
mod harmless;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 3] = [
    ("control_message", domains::message),
    ("control_endpoint", domains::endpoint),
    ("control_path_id", domains::path_id),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn arbitrary_octets_never_panic(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        for (_, body) in TARGETS {
            assert_harmless(body, &octets);
        }
    }

    #[test]
    fn parsing_nearly_valid_lines_never_panics(
        name in "[a-z0-9:]{0,9}",
        number in prop_oneof![Just("-1".to_owned()), "[0-9]{1,25}", Just("1e9".to_owned())],
        id in "[0-9a-f-]{30,40}",
    ) {
        let path = format!(
            "{{\"version\":3,\"body\":{{\"path\":{{\"id\":\"{id}\",\"from\":\"{name}\",\"to\":\"1:{number}\",\
             \"bytes\":{number},\"rate_max_bps\":{number},\"rate_min_bps\":null,\"earliest\":0,\"latest\":{number},\
             \"exclude_domains\":[{number}],\"exclude_links\":[],\"protect\":false,\"tree\":true}}}}}}"
        );
        assert_harmless(domains::message, path.as_bytes());
        assert_harmless(domains::path_id, id.as_bytes());
        assert_harmless(domains::endpoint, format!("{name}{number}").as_bytes());
        let release = format!("{{\"version\":{number},\"body\":{{\"release\":\"{id}\"}}}}");
        assert_harmless(domains::message, release.as_bytes());
        let answer = format!("{{\"version\":3,\"body\":{{\"problem\":{{\"{name}\":\"{id}\"}}}}}}");
        assert_harmless(domains::message, answer.as_bytes());
    }
}

#[test]
fn fuzzer_corpus_never_panics() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
