//! Descriptions: what they mean, and the one sentence that says what is wrong with one.

use lighthaul_lab::description::Description;
use lighthaul_lab::settings::{DirectionSettings, LinkSettings, Settings};

#[test]
fn flags_describe_two_hosts() {
    let both = DirectionSettings {
        rate: Some("1Gb/s".to_owned()),
        ..Default::default()
    };
    let link = LinkSettings {
        both,
        rtt: Some("100ms".to_owned()),
        ..Default::default()
    };
    let description = Description::new(&Settings::pair(link, None)).unwrap();
    assert_eq!(description.hosts(), ["a", "b"]);
    let text = format!("{description:?}");
    // the queue is one product of rate and round trip
    for part in [
        "Rate(1000000000)",
        "delay: 50ms",
        "queue_bytes_max: 12500000",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn one_sentence_says_what_is_wrong_with_a_link() {
    let hosts = "host = [{ name = \"a\" }, { name = \"b\" }]\nrouter = [{ name = \"r\" }]\n";
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\n";
    for (lines, sentence) in [
        (
            "rate = \"0\"",
            "link a-b: \"0\": expected a rate: a number above zero and a unit",
        ),
        ("rate = \"fast\"", "link a-b: \"fast\": a rate is"),
        ("delay = \"5\"", "link a-b: \"5\" is no time"),
        ("loss = \"101%\"", "link a-b: \"101%\" is no chance"),
        ("queue = \"much\"", "link a-b: \"much\": a size is"),
        (
            "rate = \"1G\"\nqueue = \"1000B\"",
            "link a-b: a queue of 1000 bytes holds no packet of MTU 1500",
        ),
        (
            "mtu = 100",
            "link a-b: an MTU is from 576 to 65535, not 100",
        ),
        (
            "rtt = \"2ms\"\ndelay = \"1ms\"",
            "link a-b: rtt and delay say the same thing twice",
        ),
        (
            "burst_loss = \"1%\"",
            "link a-b: \"1%\" is no burst loss; one is written as in 0.1% x 20",
        ),
        (
            "reorder = \"1%\"",
            "link a-b: \"1%\" is no reordering; one is written as in 1% by 2ms",
        ),
        (
            "speed = \"1G\"",
            "link a-b: a link has nothing named \"speed\"",
        ),
        (
            "forward = { los = \"1%\" }",
            "link a-b: a link has nothing named \"los\"",
        ),
        (
            "kind = \"wire\"",
            "link a-b: a kind is wan or veth, not \"wire\"",
        ),
        (
            "kind = \"veth\"\nloss = \"1%\"",
            "link a-b: a veth emulates nothing",
        ),
        (
            "segment = true",
            "link a-b: segment is for a link of kind veth",
        ),
    ] {
        let error = Description::parse(&format!("{hosts}{link}{lines}"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(sentence), "{lines}: {error}");
    }
}

#[test]
fn one_sentence_says_what_is_wrong_with_a_lab() {
    for (text, sentence) in [
        ("", "a lab has 1 to 250 hosts, and this one has 0"),
        (
            "host = [{ name = \"a b\" }]",
            "\"a b\" is no name for a host",
        ),
        (
            "host = [{ name = \"a\" }, { name = \"a\" }]",
            "there are two of the name \"a\"",
        ),
        (
            "host = [{ name = \"a\" }]\n[[link]]\nbetween = [\"a\", \"c\"]",
            "link a-c: there is no host or router named \"c\"",
        ),
        (
            "host = [{ name = \"a\" }]\n[[link]]\nbetween = [\"a\", \"a\"]",
            "link a-a: it joins a place to itself",
        ),
        (
            "host = [{ name = \"a\" }]\n[[link]]\nbetween = [\"a\"]",
            "a link is between two",
        ),
    ] {
        let error = Description::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(sentence), "{text}: {error}");
    }
}
