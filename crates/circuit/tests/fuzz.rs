//! Fuzz targets on stable Rust: random octets, valid-looking octets, and the inputs of the seed corpus.

#![expect(unreachable_pub, reason = "the targets belong to another crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/circuit.rs"]
mod circuit;
#[path = "../../../fuzz/harmless.rs"]
mod harmless;

use harmless::{assert_harmless, assert_seeds_harmless};

/// Answers of a program, valid and invalid ones.
const ANSWER: &str = r#"\{"seq":[0-9]{1,3},("results":\[(null|\{"fault":"(refused|no)","reason":"no"\}|0)(,null)?\]|"error":"[a-z ]{0,40}"|"circuits":\[\{"id":[0-9]{1,20},"flow":("all"|"udp 10.0.0.2/3[0-9] 5000-[0-9]{1,6}"|null),"rate_bps":(0|[0-9]{1,20}|null)\}\]|"version":[0-9],"capabilities":\{"rate_min_bps":[0-9]{1,2},"rate_max_bps":[0-9]{1,20},"granularity_bps":1,"reconfiguration_ns":0,"settling_ns":[0-9]{1,3},"circuits_max":[0-9]{1,4},"counted":\{"layer":"(ip|link|x)","overhead_bytes":[0-9]{1,5}\}\})\}"#;

/// Returns a message about traffic control with any attributes.
fn likely_message() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![36_u16, 40, 44, 2, 3]);
    let attribute = (0_u16..8, prop::collection::vec(any::<u8>(), 0..48));
    let attributes = prop::collection::vec(attribute, 0..4);
    (kind, attributes, any::<[u8; 20]>()).prop_map(|(kind, attributes, subject)| {
        let mut octets = vec![0; 16];
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets.extend(subject);
        for (kind, value) in attributes {
            octets.extend((4 + value.len() as u16).to_ne_bytes());
            octets.extend(kind.to_ne_bytes());
            octets.extend(value);
            octets.resize(octets.len().next_multiple_of(4), 0);
        }
        let len = octets.len() as u32;
        octets[..4].copy_from_slice(&len.to_ne_bytes());
        octets
    })
}

/// Returns lines as a switch sends them, valid and invalid ones.
fn likely_tl1() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "   SIM 26-11-26 22:52:20",
        "M  7 COMPLD",
        "M  7 DENY",
        "M  8 RTRV",
        "IP 7",
        "** 5 REPT ALM EQPT",
        "   \"1>2:SRCPORT=1,DSTPORT=2,CONNTYPE=1WAY\"",
        "   \"GGN:IPORTID=10001,OPORTID=20001,OUTPWR=-3.5\"",
        "   \"STS-1-1-1&STS-2-1-1,STS-3-1-1:2WAY,STS3C\"",
        "   \"cut",
        "   /* a; b",
        "   IIAC",
        ";",
        ">",
        "<",
        "",
    ]);
    let ends = prop::sample::select(vec!["\r\n", "\n", "\r", ""]);
    prop::collection::vec((line, ends), 0..30).prop_map(|lines| {
        lines
            .into_iter()
            .flat_map(|(line, end)| [line, end])
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn valid_looking_answers_never_panic(text in ANSWER) {
        assert_harmless(circuit::answer, text.as_bytes());
    }

    #[test]
    fn random_answers_never_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(circuit::answer, &octets);
    }

    #[test]
    fn valid_looking_switch_messages_never_panic(piece in any::<u8>(), text in likely_tl1()) {
        assert_harmless(circuit::tl1, &[&[piece], text.as_bytes()].concat());
    }

    #[test]
    fn random_switch_messages_never_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(circuit::tl1, &octets);
    }

    #[test]
    fn valid_looking_kernel_messages_never_panic(messages in prop::collection::vec(likely_message(), 0..4)) {
        assert_harmless(circuit::netlink, &messages.concat());
    }

    #[test]
    fn random_kernel_messages_never_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(circuit::netlink, &octets);
    }
}

#[test]
fn seed_corpus_never_panics() {
    assert_seeds_harmless("exec_answer", circuit::answer);
    assert_seeds_harmless("netlink", circuit::netlink);
    assert_seeds_harmless("tl1_message", circuit::tl1);
}
