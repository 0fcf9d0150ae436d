//! Bodies of the fuzz targets on the stable compiler, with random text, likely text, and the stored
//! seeds.

#![expect(unreachable_pub, reason = "the bodies belong to another crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/lab.rs"]
mod lab;

use harmless::{assert_harmless, assert_seeds_harmless};

/// Regular expression of quantities, valid and invalid.
const QUANTITY: &str = "-?[0-9]{0,22}(\\.[0-9]{0,3})?( ?(b/s|kb/s|Mb/s|Gb/s|Tb/s|ns|us|ms|s|B|MB|GiB|%|% x 9|% by 1ms| by 2s|x|é)){0,2}";

/// Generates descriptions of two hosts and a link, with properties that may be invalid.
fn likely() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "rate",
        "delay",
        "rtt",
        "queue",
        "loss",
        "burst_loss",
        "reorder",
        "duplicate",
        "policer",
        "mtu",
        "kind",
        "segment",
        "forward.rate",
        "back.loss",
        "between",
        "no_such",
    ]);
    let value = prop_oneof![
        6 => QUANTITY.prop_map(|text| format!("\"{text}\"")),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<bool>().prop_map(|yes| yes.to_string()),
        1 => Just("\"veth\"".to_owned()),
        1 => Just("[\"a\", \"b\"]".to_owned()),
    ];
    let line = (name, value).prop_map(|(name, value)| format!("{name} = {value}\n"));
    prop::collection::vec(line, 0..4).prop_map(|lines| {
        let hosts =
            "host = [{ name = \"a\" }, { name = \"b\" }]\n[[link]]\nbetween = [\"a\", \"b\"]\n";
        format!("{hosts}{}", lines.concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn description_parser_never_panics_on_likely_text(text in likely()) {
        assert_harmless(lab::description, text.as_bytes());
    }

    #[test]
    fn description_parser_never_panics_on_random_octets(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(lab::description, &octets);
    }
}

#[test]
fn stored_fuzzer_inputs_never_panic() {
    assert_seeds_harmless("description", lab::description);
}
