//! Every line that `--json` prints is one that the published schema describes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::far::{Far, Near};
use crate::running::Outcome;
use crate::schema::{assert_valid, check, schema};

/// Runs the command with `words`, as a client that the daemon knows.
fn run(far: &Far, words: &[&str]) -> Outcome {
    let mut command = far.near.lighthaul(words);
    command
        .args(["--json", "--pin", &far.pin, "--key"])
        .arg(far.near.key());
    far.near.run(command)
}

/// The types of events, each once, in the order of the alphabet.
fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    types.sort_unstable();
    types.dedup();
    types
}

#[test]
fn copy_events_match_the_schema() {
    let far = Far::start("events-cp", &[]);
    let folder = far.near.folder("folder");
    fs::write(folder.join("x"), vec![7; 5 << 20]).unwrap();
    let fifo = std::process::Command::new("mkfifo")
        .arg(folder.join("pipe"))
        .status();
    assert!(fifo.unwrap().success());
    let options = ["--json", "--rate", "20Mb/s"];
    let outcome = far.by_datagrams(|| {
        fs::remove_dir_all(far.target.join("copy")).ok();
        far.push(&options, &[&folder], "copy")
    });
    let events = assert_valid(&outcome);
    assert_eq!(
        types(&events),
        ["progress", "round", "start", "summary", "warning"]
    );
    let outcome = far
        .push(&["--json", "--no-udp"], &[&folder], "copy")
        .assert_succeeded();
    assert_eq!(assert_valid(&outcome).last().unwrap()["type"], "summary");
    let outcome = far
        .push(&["--json", "--dry-run=all"], &[&folder], "copy")
        .assert_succeeded();
    assert!(
        types(&assert_valid(&outcome)).contains(&"plan"),
        "{outcome:?}"
    );
    fs::write(far.target.join("copy/old"), "old").unwrap();
    let outcome = far
        .push(&["--json", "--delete", "-y"], &[&folder], "copy")
        .assert_succeeded();
    let events = assert_valid(&outcome);
    let removed = events.iter().find(|event| event["type"] == "removed");
    assert_eq!(removed.unwrap()["path"], "copy/old");
    assert_eq!(events.last().unwrap()["removed"], 1);
    let outcome = far.push(&["--json"], &[&far.near.at("missing")], "y");
    assert_eq!(types(&assert_valid(&outcome)), ["error"]);
}

#[test]
fn file_events_match_the_schema() {
    let far = Far::start("events-files", &[]);
    fs::write(far.target.join(OsStr::from_bytes(b"\xff")), "").unwrap();
    symlink(OsStr::from_bytes(b"\xfe"), far.target.join("link")).unwrap();
    let outcome = run(&far, &["ls", &far.place("")]).assert_succeeded();
    assert_eq!(types(&assert_valid(&outcome)), ["end", "entry"]);
    let outcome = run(&far, &["stat", &far.place("link"), &far.place("none")]);
    assert_eq!(types(&assert_valid(&outcome)), ["end", "entry", "error"]);
    let outcome = run(&far, &["mkdir", &far.place("new")]).assert_succeeded();
    assert_eq!(types(&assert_valid(&outcome)), ["end"]);
    let outcome = run(&far, &["rm", &far.place("new")]);
    assert_eq!(types(&assert_valid(&outcome)), ["end", "error"]);
    // also where no daemon answers
    let outcome = run(&far, &["ls", "lh://127.0.0.1:1/x"]);
    assert_eq!(outcome.code, Some(10));
    assert_eq!(types(&assert_valid(&outcome)), ["end", "error"]);
}

#[test]
fn probe_and_doctor_events_match_the_schema() {
    let far = Far::start("events-probe", &[]);
    let host = format!("127.0.0.1:{}", far.port);
    let words = ["probe", &host, "--what", "sealed", "--size", "1MiB"];
    let outcome = run(&far, &words).assert_succeeded();
    assert_eq!(types(&assert_valid(&outcome)), ["probe"]);
    let folder = far.near.folder("disk");
    let disk = [
        "probe",
        "--disk",
        folder.to_str().unwrap(),
        "--size",
        "1MiB",
    ];
    let events = assert_valid(&run(&far, &disk).assert_succeeded());
    let measured: Vec<_> = events.iter().map(|event| &event["what"]).collect();
    assert_eq!(measured, ["disk write", "disk read"]);
    assert!(events.iter().all(|event| event["bps"].as_u64() > Some(0)));
    assert!(crate::scratch::names(&folder).is_empty());
    let nowhere = run(&far, &["probe", "--disk", "/no/such/folder"]);
    assert_eq!(nowhere.code, Some(11), "{nowhere:?}");
    let outcome = run(&far, &["doctor", &host]);
    assert_eq!(types(&assert_valid(&outcome)), ["check", "diagnosis"]);
    let outcome = run(&far, &["doctor", "127.0.0.1:1"]);
    assert_eq!(types(&assert_valid(&outcome)), ["check", "diagnosis"]);
}

#[test]
fn version_is_printed_as_text_and_json() {
    let near = Near::new("version", None);
    let run = |words: &[&str]| near.run(near.lighthaul(words));
    let version = env!("CARGO_PKG_VERSION");
    for word in ["-V", "--version"] {
        let outcome = run(&[word]).assert_succeeded();
        let line = outcome.out[0].strip_prefix(&format!("lighthaul {version}"));
        let details = line.unwrap_or_else(|| panic!("{outcome:?}"));
        // builds for tests have no commit
        let features = [
            (cfg!(feature = "lab"), " lab"),
            (cfg!(feature = "mount"), " mount"),
            (cfg!(feature = "objects"), " objects"),
            (cfg!(feature = "otel"), " otel"),
            (cfg!(feature = "scheduler"), " scheduler"),
        ];
        let built = features.into_iter().filter(|(is_on, _)| *is_on);
        let names: String = built.map(|(_, name)| name).collect();
        let test = if names.is_empty() {
            names
        } else {
            format!(" (features{names})")
        };
        let is_release = details.starts_with(" (commit ") && details.ends_with(')');
        assert!(details == test || is_release, "{details}");
    }
    for words in [["--version", "--json"], ["--json", "-V"]] {
        let events = assert_valid(&run(&words).assert_succeeded());
        assert_eq!(events[0]["version"], version);
        let commit = events[0]["commit"].as_str().unwrap();
        assert!(matches!(commit.len(), 0 | 12), "{commit}");
        assert_eq!(events[0]["static"], cfg!(target_feature = "crt-static"));
    }
    for words in [&["--json"][..], &[], &["--version", "key"]] {
        let outcome = run(words);
        assert_eq!(
            (outcome.code, outcome.out.len()),
            (Some(1), 0),
            "{outcome:?}"
        );
    }
}

#[test]
fn no_color_disables_colors() {
    let near = Near::new("colour", None);
    let colored = |name: &str| {
        let mut command = near.lighthaul(&["--help"]);
        command.env("CLICOLOR_FORCE", "1").env(name, "1");
        let outcome = near.run(command).assert_succeeded();
        outcome.out.iter().any(|line| line.contains('\x1b'))
    };
    assert!(colored("ANYTHING"), "there is none to leave out");
    assert!(!colored("NO_COLOR"));
}

#[test]
fn every_described_event_is_an_alternative() {
    let schema = schema();
    let alternatives = schema["oneOf"].as_array().unwrap();
    let is_event = |one: &Value| one["properties"]["type"]["const"].is_string();
    let described = schema["$defs"].as_object().unwrap().iter();
    let events: Vec<_> = described.filter(|(_, one)| is_event(one)).collect();
    assert!(events.len() > 10, "{events:?}");
    for (name, _) in events {
        let reference = json!({ "$ref": format!("#/$defs/{name}") });
        assert!(alternatives.contains(&reference), "{name}");
    }
}

#[test]
fn events_outside_the_schema_are_refused() {
    let schema = schema();
    let good = json!({"v": 1, "type": "round", "round": 1, "packets": 2});
    assert_eq!(check(&schema, &schema, &good), Ok(()));
    for (key, value) in [
        ("v", json!(2)),
        ("type", json!("rounds")),
        ("round", json!(-1)),
        ("packets", json!("2")),
        ("more", json!(0)),
    ] {
        let mut bad = good.clone();
        bad[key] = value;
        assert!(check(&schema, &schema, &bad).is_err(), "{bad}");
    }
    let lacking = json!({"v": 1, "type": "round", "round": 1});
    assert!(check(&schema, &schema, &lacking).is_err());
}
