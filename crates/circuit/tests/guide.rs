//! Settings and capabilities of the guide, read by the code that reads those of an operator.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use lighthaul_circuit::tl1::SwitchConfig;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
    fs::read_to_string(path.join(name)).unwrap()
}

#[test]
fn switch_of_the_guide_can_be_read() {
    let page = page("circuits.md");
    let blocks: Vec<&str> = page.split("\n```toml\n").skip(1).collect();
    assert_eq!(blocks.len(), 1, "a new block needs its own parser here");
    let block = blocks[0].split("\n```").next().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("guide-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let login = folder.join("switch.login");
    fs::write(&login, "ada\nsecret\n").unwrap();
    let text = block.replace("/etc/lighthaul/switch.login", login.to_str().unwrap());
    assert_ne!(text, block);
    let file = folder.join("switch.toml");
    let read = |text: &str| {
        fs::write(&file, text).unwrap();
        SwitchConfig::read(&file)
    };
    assert_eq!(read(&text).unwrap().interfaces["wan"].len(), 2);
    for key in [
        "command_time = \"5ms\"",
        "settling = \"20ms\"",
        "overhead_bytes = 38",
        "timeout = \"10s\"",
        "list_timeout = \"2m\"",
    ] {
        let name = key.split(' ').next().unwrap();
        assert!(page.contains(&format!("`{name}`")), "{name}");
        let config = read(&format!("{key}\n{text}"));
        assert!(config.is_ok(), "{key}: {}", config.unwrap_err());
    }
    assert!(read(&format!("unknown = 1\n{text}")).is_err());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn capabilities_in_the_guide_match_the_schema() {
    let schema = include_str!("../schema/driver.v1.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let page = page("drivers.md");
    let table = page.split("## Capabilities").nth(1).unwrap();
    let fields = schema["$defs"]["capabilities"]["properties"].as_object();
    for name in fields.unwrap().keys() {
        assert!(table.contains(&format!("`{name}`")), "{name}");
    }
    assert!(page.lines().count() <= 150);
}
