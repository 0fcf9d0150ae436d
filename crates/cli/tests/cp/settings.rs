//! Options from files and from the environment.

use std::fs;

use crate::far::{Far, Near};

/// Writes the configuration file of the client.
fn set(near: &Near, text: &str) {
    near.folder("config/lighthaul");
    fs::write(near.at("config/lighthaul/config.toml"), text).unwrap();
}

#[test]
fn options_override_environment_and_files() {
    let far = Far::start("settings", &[]);
    let file = far.near.file("x", 1000);
    set(
        &far.near,
        "[cp]\njson = true\ndigest = \"blake3\"\nrate = \"11Mb/s\"\nno-udp = false\n",
    );
    let rate = |flags: &[&str], variable: Option<&str>| {
        let place = far.place(&format!("x{}", far.names().len()));
        let mut copy = far.copy(flags, &[file.to_str().unwrap(), &place]);
        copy.envs(variable.map(|value| ("LIGHTHAUL_RATE", value)));
        let events = far.near.run(copy).assert_succeeded().events();
        let start = events
            .iter()
            .find(|event| event["type"] == "start")
            .unwrap();
        start["rate_bps"].as_u64().unwrap()
    };
    assert_eq!(rate(&[], None), 11_000_000);
    assert_eq!(rate(&[], Some("12Mb/s")), 12_000_000);
    assert_eq!(rate(&["--rate", "13Mb/s"], Some("12Mb/s")), 13_000_000);
}

#[test]
fn unknown_setting_is_reported_with_its_file() {
    let near = Near::new("odd-key", None);
    set(&near, "[serve]\nlissten = \"[::]:1\"\n");
    let outcome = near
        .run(near.lighthaul(&["key"]))
        .assert_failed(1, "[serve] has no key lissten");
    assert!(outcome.said("config/lighthaul/config.toml"), "{outcome:?}");
    let help = near.run(near.lighthaul(&["serve", "--help"]));
    let shown = help.assert_succeeded().out;
    assert!(shown.iter().any(|line| line.contains("--listen")));
    set(&near, "[cp]\nrate = \"fast\"\n");
    let outcome = near
        .run(near.lighthaul(&["cp", "a", "b:"]))
        .assert_failed(1, "the value is set in");
    assert!(
        outcome.said("config/lighthaul/config.toml") && outcome.said("'fast'"),
        "{outcome:?}"
    );
    near.run(near.lighthaul(&["cp", "--rate", "1Mb/s", "a", "b"]))
        .assert_failed(1, "neither side is remote");
}

#[test]
fn config_shows_settings_and_their_origin() {
    let near = Near::new("in-force", None);
    set(
        &near,
        "[cp]\nrate = \"11Mb/s\"\n[serve]\nplain = true\n[probe]\ntime = 2\n",
    );
    let config = |words: &[&str]| {
        let mut config = near.lighthaul(words);
        config
            .env("LIGHTHAUL_NO_SYNC", "1")
            .env("LIGHTHAUL_STATS", "1")
            .env("LIGHTHAUL_GATEWAY", "alice:secret@127.0.0.1:1080");
        near.run(config).assert_succeeded()
    };
    let brief = config(&["config"]);
    let outcome = config(&["config", "--all"]);
    let text = outcome.out.join("\n");
    assert!(text.contains("# gateway is set, with a password") && !text.contains("secret"));
    let file = near.at("config/lighthaul/config.toml");
    let file = file.display();
    for line in [
        format!("rate = \"11Mb/s\"  # {file}"),
        format!("plain = true  # {file}"),
        format!("time = \"2\"  # {file}"),
        "no-sync = true  # LIGHTHAUL_NO_SYNC".to_owned(),
        "stats = true  # LIGHTHAUL_STATS".to_owned(),
        "listen = \"[::]:4810\"  # default".to_owned(),
    ] {
        assert!(outcome.out.contains(&line), "{line} is not in {text}");
        let is_set = !line.ends_with("# default");
        assert_eq!(brief.out.contains(&line), is_set, "{line}: {brief:?}");
    }
    let brief = brief.out.join("\n");
    assert!(
        !brief.contains("[calendar]") && !brief.contains("is not set"),
        "{brief}"
    );
    // the printed settings are a valid file
    set(&near, &text);
    near.run(near.lighthaul(&["config"])).assert_succeeded();
}
