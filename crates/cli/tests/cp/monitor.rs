//! Command `lighthaul monitor`: samples of this host as JSON and as a table.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use lighthaul_testkit::lacks_tool;
use serde_json::Value;

use crate::far::{Far, Near};
use crate::running::{Ends, Outcome, Running, event};
use crate::schema::assert_valid;
use crate::stage::Stage;

/// Runs the monitor with `words`.
fn monitor(near: &Near, words: &[&str]) -> Outcome {
    near.run(command(near, words))
}

fn command(near: &Near, words: &[&str]) -> Command {
    let mut command = near.lighthaul(&["monitor"]);
    command.args(words);
    // the usual file of root is that of this machine
    if !words
        .iter()
        .any(|word| ["--store", "--no-store"].contains(word))
    {
        command.arg("--store").arg(near.at("monitor.db"));
    }
    command
}

#[test]
fn json_has_one_valid_event_per_interval() {
    let near = Near::new("monitor-json", None);
    let words = ["--json", "--count", "2", "--interval", "200ms"];
    let outcome = monitor(&near, &words).assert_succeeded();
    let events = assert_valid(&outcome);
    assert_eq!(events.len(), 2, "{outcome:?}");
    for event in &events {
        assert_eq!(event["type"], "sample");
        assert!(event["interval_s"].as_f64() >= Some(0.09), "{event}");
        assert!(event["memory"]["total_bytes"].as_u64() > Some(0), "{event}");
        assert!(!event["cores"].as_array().unwrap().is_empty(), "{event}");
    }
    let time = |nth: usize| events[nth]["time_s"].as_f64().unwrap();
    assert!(time(0) < time(1), "{outcome:?}");
}

#[test]
fn table_has_headings_and_one_line_per_interval() {
    let near = Near::new("monitor-table", None);
    let words = ["--count", "2", "--interval", "100ms"];
    let outcome = monitor(&near, &words).assert_succeeded();
    assert_eq!(outcome.out.len(), 3, "{outcome:?}");
    assert!(outcome.out[0].contains("WRITE/S"), "{outcome:?}");
    assert!(outcome.out[1].contains(" %"), "{outcome:?}");
}

#[test]
fn busy_process_is_seen_in_the_time_of_processors() {
    let near = Near::new("monitor-busy", None);
    let has_ended = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let _end = Ends(&has_ended);
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let words = ["--json", "--count", "1", "--interval", "1s"];
        monitor(&near, &words).assert_succeeded()
    });
    let event = &assert_valid(&outcome)[0];
    let cores = event["cores"].as_array().unwrap();
    let used = |core: &Value| {
        ["user", "system", "steal"]
            .map(|name| core[name].as_f64().unwrap())
            .iter()
            .sum::<f64>()
    };
    // on one processor, or moved between them
    let used: f64 = cores.iter().map(used).sum();
    assert!(used > 0.3, "{event}");
}

#[test]
fn copy_is_seen_in_the_rates_of_its_interface() {
    let link = "rate = \"100Mb/s\"\ndelay = \"1ms\"";
    let Some(stage) = Stage::pair("copy_is_seen_in_the_rates_of_its_interface", link) else {
        return;
    };
    let far = Far::start_on("monitor-link", stage);
    let words = ["--json", "--interval", "500ms"];
    let mut monitor = Running::start(command(&far.near, &words));
    monitor.prints("interfaces");
    let file = far.near.file("x", 3 << 20);
    far.push(&["--rate", "20Mb/s"], &[&file], "x")
        .assert_succeeded();
    // the samples of the copy come first
    let is_copy =
        |rates: &Value| rates["name"] != "lo" && rates["tx_bytes_per_s"].as_f64() > Some(200_000.0);
    let is_seen = (0..100).any(|_| {
        let event = event(&monitor.next_line());
        event["interfaces"].as_array().unwrap().iter().any(is_copy)
    });
    assert!(is_seen, "no interface transmitted 200 kB/s");
}

#[test]
fn signal_ends_the_monitor_without_a_failure() {
    let near = Near::new("monitor-signal", None);
    let mut monitor = Running::start(command(&near, &["--json", "--interval", "100ms"]));
    monitor.prints("sample");
    monitor.signal("INT");
    let outcome = monitor.finish().assert_succeeded();
    assert!(outcome.err.is_empty(), "{outcome:?}");
}

#[test]
fn stored_samples_are_printed_as_json_and_as_a_table() {
    let near = Near::new("monitor-history", None);
    let store = near.at("samples/monitor.db");
    let store = store.to_str().unwrap();
    let words = [
        "--json",
        "--count",
        "3",
        "--interval",
        "100ms",
        "--store",
        store,
    ];
    let new = monitor(&near, &words).assert_succeeded();
    let words = ["--history", "--since", "1h", "--json", "--store", store];
    let stored = monitor(&near, &words).assert_succeeded();
    assert_eq!(assert_valid(&stored), assert_valid(&new));
    let table = monitor(&near, &["--history", "--store", store]).assert_succeeded();
    assert_eq!(table.out.len(), 4, "{table:?}");
    let words = ["--history", "--since", "1ns", "--json", "--store", store];
    let none = monitor(&near, &words).assert_succeeded();
    assert!(none.out.is_empty(), "{none:?}");
}

#[test]
fn damaged_or_missing_history_is_refused() {
    let near = Near::new("monitor-damaged", None);
    let store = near.at("monitor.db");
    let name = store.to_str().unwrap();
    let history = ["--history", "--store", name];
    monitor(&near, &history).assert_failed(3, "no sample is stored yet");
    std::fs::write(&store, "this was never a database".repeat(100)).unwrap();
    monitor(&near, &history).assert_failed(3, "damaged");
    let words = ["--count", "1", "--interval", "100ms", "--store", name];
    let outcome = monitor(&near, &words).assert_failed(3, "damaged");
    assert!(outcome.out.is_empty(), "{outcome:?}");
    let words = ["--count", "1", "--interval", "100ms", "--no-store"];
    monitor(&near, &words).assert_succeeded();
}

/// Runs the monitor on a terminal of its own until its first frame, and then presses `key`.
/// Returns the exit status and all output.
fn on_terminal(near: &Near, key: &[u8], color: &str) -> (Option<i32>, String) {
    let program = command(near, &["--interval", "200ms"]);
    let words: Vec<_> = std::iter::once(program.get_program())
        .chain(program.get_args())
        .map(|word| word.to_str().unwrap())
        .collect();
    let mut terminal = Command::new("script")
        .args(["-qec", &words.join(" "), "/dev/null"])
        .env("TERM", "xterm")
        .env("NO_COLOR", color)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = terminal.stdin.take().unwrap();
    let mut screen = terminal.stdout.take().unwrap();
    let (mut shown, mut part) = (Vec::new(), [0; 4096]);
    let mut is_pressed = false;
    loop {
        let count = screen.read(&mut part).unwrap();
        shown.extend_from_slice(&part[..count]);
        if count == 0 {
            break;
        }
        if !is_pressed && String::from_utf8_lossy(&shown).contains("q quits") {
            keys.write_all(key).unwrap();
            is_pressed = true;
        }
    }
    let code = terminal.wait().unwrap().code();
    (code, String::from_utf8_lossy(&shown).into_owned())
}

#[test]
fn key_ends_the_live_screen_and_restores_the_terminal() {
    if lacks_tool("key_ends_the_live_screen", "script") {
        return;
    }
    let near = Near::new("monitor-screen", None);
    for (key, color) in [(b"q", ""), (b"\x03", "1")] {
        let (code, shown) = on_terminal(&near, key, color);
        assert_eq!(code, Some(0), "{shown:?}");
        assert!(shown.starts_with("\x1b[?1049h"), "{shown:?}");
        assert!(shown.ends_with("\x1b[?25h\x1b[?1049l"), "{shown:?}");
        assert!(shown.contains("INTERFACE"), "{shown:?}");
        assert_eq!(shown.contains("\x1b[32m"), color.is_empty(), "{shown:?}");
    }
}

#[test]
fn invalid_intervals_and_counts_are_refused() {
    let near = Near::new("monitor-options", None);
    for words in [
        ["--interval", "5ms"],
        ["--interval", "2h"],
        ["--count", "0"],
    ] {
        monitor(&near, &words).assert_failed_to_parse();
    }
}
