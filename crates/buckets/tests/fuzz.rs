//! Bodies of the fuzz targets on the stable compiler, with random octets, likely ones, and the
//! stored seeds.

#![expect(unreachable_pub, reason = "the bodies belong to another crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/buckets.rs"]
mod buckets;
#[path = "../../../fuzz/harmless.rs"]
mod harmless;

use harmless::{assert_harmless, assert_seeds_harmless};

/// Generates lists of objects that may be malformed.
fn lists() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("<Contents>".to_owned()),
        Just("</Contents>".to_owned()),
        Just("<IsTruncated>true</IsTruncated>".to_owned()),
        Just("<EncodingType>url</EncodingType>".to_owned()),
        "<Key>[a-z/%+0-9é.]{0,12}</Key>",
        "<Size>-?[0-9]{0,22}</Size>",
        "<LastModified>[0-9TZ:.-]{0,24}</LastModified>",
    ];
    let parts = prop::collection::vec(part, 0..12);
    parts.prop_map(|parts| format!("<ListBucketResult>{}</ListBucketResult>", parts.concat()))
}

proptest! {
    #[test]
    fn answers_may_be_any_octets(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(buckets::answer, &octets);
    }

    #[test]
    fn answers_may_be_likely_text(text in "(bytes )?-?[0-9]{0,20}[-.][0-9]{0,20}/?[0-9*]{0,20}") {
        assert_harmless(buckets::answer, text.as_bytes());
    }

    #[test]
    fn lists_may_be_malformed(text in lists()) {
        assert_harmless(buckets::answer, text.as_bytes());
    }
}

#[test]
fn stored_fuzzer_inputs_are_harmless() {
    assert_seeds_harmless("bucket_answer", buckets::answer);
}
