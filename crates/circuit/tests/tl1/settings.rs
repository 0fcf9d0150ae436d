//! Settings of switches.

use std::fs;
use std::path::{Path, PathBuf};

use lighthaul_circuit::tl1::SwitchConfig;
use lighthaul_circuit::tl1::cross_connect::Direction;

const VALID: &str = r#"
address = "switch.example.org"
dialect = "calient"
login = "LOGIN"
records = "/var/lib/lighthaul/switch"
direction = "two-way"
channel_rate = "10Gb/s"
reconfiguration = "50ms"

[interfaces]
wan = [["1.1.1", "2.1.1"], ["1.1.2", "2.1.2"]]
"#;

/// Reads settings with this login.
fn read(name: &str, text: &str, login: &str) -> Result<SwitchConfig, String> {
    let folder = write(name, text, login);
    let config = SwitchConfig::read(&folder.join("switch.toml")).map_err(|why| why.to_string());
    let _ = fs::remove_dir_all(&folder);
    config
}

fn write(name: &str, text: &str, login: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("tl1-settings-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let login_path = folder.join("login");
    fs::write(&login_path, login).unwrap();
    let text = text.replace("LOGIN", &login_path.display().to_string());
    fs::write(folder.join("switch.toml"), text).unwrap();
    folder
}

#[test]
fn settings_have_defaults() {
    let config = read("valid", VALID, "ada\nsecret\n").unwrap();
    assert_eq!(config.address(), "switch.example.org:3083");
    assert_eq!(config.limits.command.as_secs(), 10);
    assert_eq!(config.limits.list.as_secs(), 120);
    assert_eq!(config.channel.overhead_bytes, 38);
    assert_eq!(config.power_min_dbm, None);
    assert!(config.command_time.is_zero());
    let channels = &config.interfaces["wan"];
    assert_eq!(channels.len(), 2);
    assert_eq!(channels[0].direction(), Direction::TwoWay);
    assert!(!format!("{config:?}").contains("secret"));
    let with = |from: &str, to: &str| read("valid", &VALID.replace(from, to), "a\nb").unwrap();
    let other = with("switch.example.org", "[::1]:4000");
    assert_eq!(
        (other.address().as_str(), other.host.as_str()),
        ("[::1]:4000", "::1")
    );
    let other = with("\"calient\"\n", "\"cisco\"\nsignal = \"sts3c\"\n");
    assert_eq!(other.address(), "switch.example.org:3083");
    let text = VALID
        .replace("calient", "glimmerglass")
        .replace("two-way", "one-way");
    let other = read("valid", &text, "a\nb").unwrap();
    assert_eq!(other.address(), "switch.example.org:10034");
}

#[test]
fn wrong_settings_are_refused_with_their_key() {
    for (from, to, says) in [
        ("dialect", "dialekt", "unknown field `dialekt`"),
        ("\"calient\"", "\"ciena\"", "unknown variant `ciena`"),
        (
            "\"calient\"",
            "\"glimmerglass\"",
            "direction: the switch connects ports in one direction only",
        ),
        ("\"calient\"", "\"cisco\"", "signal: a cisco needs one"),
        (
            "\"calient\"\n",
            "\"cisco\"\nsignal = \"STS 3\"\n",
            "signal: a cisco needs one",
        ),
        ("two-way", "other", "direction: "),
        ("switch.example.org", "switch:0", "address: "),
        ("switch.example.org", "::1", "address: "),
        ("10Gb/s", "10", "channel_rate: "),
        ("50ms", "50", "reconfiguration: "),
        ("50ms", "50ms\"\ncommand_time = \"5", "command_time: "),
        ("/var/lib", "var/lib", "records: the path must be absolute"),
        (
            "[interfaces]",
            "timeout = \"0s\"\n[interfaces]",
            "timeout: ",
        ),
        (
            "[interfaces]",
            "list_timeout = \"1s\"\n[interfaces]",
            "list_timeout: a list takes at least as long",
        ),
        (
            "[interfaces]",
            "power_min_dbm = -20.0\n[interfaces]",
            "power_min_dbm: ",
        ),
        (
            "wan = [",
            "wan = []\nlan = [",
            "interfaces.wan: an interface has from 1 to 4096 channels",
        ),
        (
            "wan",
            "\"../wan\"",
            "interfaces.../wan: the name of an interface",
        ),
        (
            "\"2.1.2\"",
            "\"2.1.1\"",
            "1.1.2-2.1.1 and 1.1.1-2.1.1 share a port",
        ),
        (
            "\"2.1.2\"",
            "\"1.1.2\"",
            "1.1.2-1.1.2 connects a port with itself",
        ),
        ("\"2.1.2\"", "\"2;DLT\"", "is not the name of a port"),
        (
            "wan = [[\"1.1.1\", \"2.1.1\"], [\"1.1.2\", \"2.1.2\"]]",
            "",
            "interfaces: there must be one",
        ),
    ] {
        let text = VALID.replace(from, to);
        assert_ne!(text, VALID, "{from}");
        let why = read("wrong", &text, "ada\nsecret\n").unwrap_err();
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn wrong_login_is_refused_without_showing_the_login() {
    for login in [
        "",
        "ada\n",
        "ada\nsecret\nmore\n",
        "ada\nsec;ret\n",
        "ada\n\n",
        "a b\nsecret\n",
    ] {
        let why = read("login", VALID, login).unwrap_err();
        assert!(why.contains("login: "), "{why}");
        assert!(!why.contains("sec"), "{why}");
    }
    let text = VALID.replace("LOGIN", "/nowhere/login");
    let why = read("login", &text, "").unwrap_err();
    assert!(
        why.contains("/nowhere/login: there is no such file"),
        "{why}"
    );
}
