//! Effects and errors of options.

use crate::far::Far;
use crate::running::event;
use crate::scratch::look;

#[test]
fn events_are_json_lines_that_end_with_the_summary() {
    let far = Far::start("json", &[]);
    let file = far.near.file("x", 5 << 20);
    for options in [
        &["--json"][..],
        &["--json", "--rate", "40Mb/s"],
        &["--json", "--no-udp"],
    ] {
        let outcome = far.push(options, &[&file], "x").assert_succeeded();
        let events = outcome.events();
        let kinds: Vec<_> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert!(kinds.contains(&"start"), "{kinds:?}");
        let summary = events.last().unwrap();
        assert_eq!(summary["type"], "summary", "{kinds:?}");
        assert_eq!(summary["verified"], true);
        assert_eq!(summary["bytes"], 5 << 20);
        assert_eq!(summary["entries"], 1);
        assert!(summary["goodput_bps"].as_u64().unwrap() > 0);
        assert_eq!(kinds.iter().filter(|kind| **kind == "summary").count(), 1);
    }
    let outcome = far.push(&["--json"], &[&far.near.at("missing")], "y");
    let events = outcome.events();
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["code"]), (&"error".into(), &3.into()));
    outcome.assert_failed(3, "cannot open");
}

#[test]
fn summary_reports_verification_only_for_compared_files() {
    let far = Far::start("verified", &[]);
    let file = far.near.file("x", 100_000);
    let verified = |options: &[&str], words: &str| {
        let told = far.push(options, &[&file], "x").assert_succeeded();
        assert!(told.said(words), "{words}: {told:?}");
        let events = far
            .push(&[options, &["--json"]].concat(), &[&file], "x")
            .events();
        events.last().unwrap()["verified"].clone()
    };
    assert_eq!(
        verified(&["-n"], "a dry run, would send 97.66 KiB in 1 entry"),
        false
    );
    assert_eq!(
        verified(&["--verify=none"], "NOT verified (--verify=none)"),
        false
    );
    assert_eq!(verified(&[], "up to date"), true);
    assert_eq!(verified(&["-c"], "up to date, verified"), true);
}

#[test]
fn stats_and_quiet_change_the_output() {
    let far = Far::start("stats", &["--plain"]);
    let file = far.near.file("x", 100_000);
    let outcome = far
        .push(&["--stats", "--plain", "--rate", "100Mb/s"], &[&file], "x")
        .assert_succeeded();
    for words in [
        "verified",
        "Mb/s on the wire, plain",
        "rounds",
        "datagrams",
        "buffer drops",
    ] {
        assert!(outcome.said(words), "{words}: {outcome:?}");
    }
    let outcome = far
        .pull(&["--stats"], &["x"], far.near.at("y").to_str().unwrap())
        .assert_succeeded();
    assert!(
        outcome.said("AES-128-GCM") || outcome.said("ChaCha20"),
        "{outcome:?}"
    );
    let outcome = far.push(&["-q"], &[&file], "x").assert_succeeded();
    assert_eq!(
        (outcome.out.len(), outcome.err.len()),
        (0, 0),
        "{outcome:?}"
    );
    let outcome = far
        .push(&["-q"], &[&far.near.at("missing")], "x")
        .assert_failed(3, "cannot open");
    assert_eq!(outcome.err.len(), 1, "{outcome:?}");
    let outcome = far
        .push(&["--progress", "plain"], &[&file], "x")
        .assert_succeeded();
    assert!(outcome.out.is_empty(), "{outcome:?}");
}

#[test]
fn rate_holds_in_both_directions() {
    let far = Far::start("rate", &[]);
    let file = far.near.file("x", 1 << 20);
    let back = far.near.at("back");
    let pushed = far
        .push(&["--json", "--rate", "16Mb/s"], &[&file], "x")
        .assert_succeeded();
    let pulled = far.pull(
        &["--json", "--rate", "16Mb/s"],
        &["x"],
        back.to_str().unwrap(),
    );
    for outcome in [pushed, pulled.assert_succeeded()] {
        let events = outcome.events();
        let start = events
            .iter()
            .find(|event| event["type"] == "start")
            .unwrap();
        assert_eq!(start["rate_bps"], 16_000_000, "{start}");
        // 1 MiB and its heads take half a second at this rate; a busy machine only takes longer
        let summary = events.last().unwrap();
        assert!(summary["moving_s"].as_f64().unwrap() > 0.49, "{summary}");
    }
    assert!(look(&back) == look(&file));
}

#[test]
fn usage_errors_are_reported_before_connecting() {
    let far = Far::start("usage", &[]);
    let file = far.near.file("x", 10);
    let (file, place) = (file.to_str().unwrap(), far.place("x"));
    far.run(&[], &[file, "here"])
        .assert_failed(1, "neither side is remote");
    far.run(&[], &[&place, "lh://other/x", "here/"])
        .assert_failed(1, "must be on one host");
    far.run(&[], &[file, "lh://no-path"])
        .assert_failed(1, "write lh://HOST[:PORT]/PATH");
    for (option, value) in [
        ("--rate", "0"),
        ("--rate", "0b/s"),
        ("--rate", "fast"),
        ("--digest", "md5"),
    ] {
        let outcome = far.run(&[option, value], &[file, &place]);
        assert_eq!(outcome.code, Some(1), "{option} {value}: {outcome:?}");
        assert!(
            outcome.said("invalid value"),
            "{option} {value}: {outcome:?}"
        );
    }
    let outcome = far.run(&[], &[file]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let outcome = far.run(&["--no-such-option"], &[file, &place]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(far.names().is_empty());
}

#[test]
fn summary_is_text_without_json() {
    let far = Far::start("summary", &[]);
    let file = far.near.file("x", 1_000_000);
    let outcome = far.push(&[], &[&file], "x").assert_succeeded();
    assert!(outcome.out.is_empty(), "{outcome:?}");
    assert!(
        outcome.said("in 1 entry, ") && outcome.said("verified"),
        "{outcome:?}"
    );
    let outcome = far.push(&["--json"], &[&file], "x").assert_succeeded();
    assert!(outcome.err.is_empty(), "{outcome:?}");
    assert!(outcome.out.iter().all(|line| event(line).is_object()));
}

#[test]
fn write_error_on_standard_output_is_a_failure() {
    let far = Far::start("options-full", &[]);
    let file = far.near.file("x", 1000);
    for options in [&["-n"][..], &["--json"], &["--hash", "md5"]] {
        let paths = [file.to_str().unwrap(), &far.place("x")];
        let mut copy = far.copy(options, &paths);
        let full = std::fs::File::options().write(true).open("/dev/full");
        let outcome = copy.stdout(full.unwrap()).output().unwrap();
        let text = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.status.code(), Some(11), "{options:?}: {text}");
        assert!(
            text.contains("cannot write standard output: no space left"),
            "{options:?}: {text}"
        );
    }
    // the same sentence and status of any command
    let here = far.near.at("x");
    // the daemon replaces its own files beside the others
    let folder = far.near.folder("folder");
    far.near.file("folder/y", 10);
    for words in [
        &["--help"][..],
        &["cp", "-h"],
        &["--version"],
        &["ls", here.to_str().unwrap()],
        &["du", here.to_str().unwrap()],
        &["manifest", folder.to_str().unwrap()],
    ] {
        let mut command = far.near.lighthaul(words);
        let full = std::fs::File::options().write(true).open("/dev/full");
        let outcome = command.stdout(full.unwrap()).output().unwrap();
        let text = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.status.code(), Some(11), "{words:?}: {text}");
        assert!(
            text.starts_with("lighthaul: cannot write standard output: no space left"),
            "{words:?}: {text}"
        );
    }
}
