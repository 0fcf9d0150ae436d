//! Tests of descriptions: their meaning, and the messages about errors.

use lighthaul_lab::description::Description;
use lighthaul_lab::settings::{DirectionSettings, LinkSettings, Settings};

#[test]
fn pair_settings_describe_two_hosts() {
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
    // The default queue is the product of rate and round-trip time.
    for part in [
        "Rate(1000000000)",
        "delay: 50ms",
        "queue_bytes_max: 12500000",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn invalid_link_is_rejected_with_a_message() {
    let hosts = "host = [{ name = \"a\" }, { name = \"b\" }]\nrouter = [{ name = \"r\" }]\n";
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\n";
    for (lines, sentence) in [
        (
            "rate = \"0\"",
            "link a-b: \"0\": a rate needs a unit, as in 900Mb/s",
        ),
        ("rate = \"fast\"", "link a-b: \"fast\": expected a rate"),
        (
            "delay = \"5\"",
            "link a-b: \"5\": a duration needs a unit, as in 250ms",
        ),
        ("loss = \"101%\"", "link a-b: invalid probability \"101%\""),
        ("queue = \"much\"", "link a-b: \"much\": expected a size"),
        (
            "rate = \"1G\"\nqueue = \"1000B\"",
            "link a-b: a queue of 1000 bytes is shorter than the MTU of 1500",
        ),
        (
            "mtu = 100",
            "link a-b: mtu must be from 576 to 65535, not 100",
        ),
        (
            "rtt = \"2ms\"\ndelay = \"1ms\"",
            "link a-b: give either rtt or delay, not both",
        ),
        (
            "burst_loss = \"1%\"",
            "link a-b: invalid burst loss \"1%\": write it as 0.1% x 20",
        ),
        (
            "reorder = \"1%\"",
            "link a-b: invalid reordering \"1%\": write it as 1% by 2ms",
        ),
        (
            "policer = \"1Gb/s\"",
            "link a-b: invalid policer \"1Gb/s\": write it as 200Mb/s x 1MB",
        ),
        ("speed = \"1G\"", "link a-b: unknown setting \"speed\""),
        (
            "forward = { los = \"1%\" }",
            "link a-b: unknown setting \"los\"",
        ),
        (
            "kind = \"wire\"",
            "link a-b: kind must be wan or veth, not \"wire\"",
        ),
        (
            "kind = \"veth\"\nloss = \"1%\"",
            "link a-b: a veth has only the settings mtu and segment",
        ),
        (
            "segment = true",
            "link a-b: only a link of kind veth has the setting segment",
        ),
    ] {
        let error = Description::parse(&format!("{hosts}{link}{lines}"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(sentence), "{lines}: {error}");
    }
}

#[test]
fn invalid_lab_is_rejected_with_a_message() {
    for (text, sentence) in [
        ("", "a lab needs 1 to 250 hosts, not 0"),
        ("host = [{ name = \"a b\" }]", "invalid host name \"a b\""),
        (
            "host = [{ name = \"a\" }, { name = \"a\" }]",
            "the name \"a\" is used twice",
        ),
        (
            "host = [{ name = \"a\" }]\n[[link]]\nbetween = [\"a\", \"c\"]",
            "link a-c: there is no host or router named \"c\"",
        ),
        (
            "host = [{ name = \"a\" }]\n[[link]]\nbetween = [\"a\", \"a\"]",
            "link a-a: both ends are the same",
        ),
        (
            "host = [{ name = \"a\" }]\n[[link]]\nbetween = [\"a\"]",
            "a link needs two ends",
        ),
    ] {
        let error = Description::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(sentence), "{text}: {error}");
    }
}
