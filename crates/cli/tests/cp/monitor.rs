//! Command `lighthaul monitor`: samples of this host as JSON and as a table.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use lighthaul_testkit::lacks_tool;
use serde_json::Value;

use crate::far::{ClosedPort, Far, Near};
use crate::running::{Ends, Outcome, Running, becomes_true, event};
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
fn busy_process_increases_the_measured_processor_time() {
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

/// Gives the monitor's user the key that the daemon accepts, and trusts the daemon. Returns the daemon's name.
fn known(far: &Far) -> String {
    let place = far.place("");
    let name = place.trim_start_matches("lh://").split('/').next().unwrap();
    let folder = far.near.folder("config/lighthaul");
    std::fs::copy(far.near.key(), folder.join("key")).unwrap();
    let trust = far.near.lighthaul(&["trust", name, &far.pin]);
    far.near.run(trust).assert_succeeded();
    name.to_owned()
}

/// Returns the next probe that the monitor reports, and the bytes of all interfaces but `lo` until then.
fn next_probe(monitor: &mut Running) -> (Value, f64) {
    let mut bytes = 0.0;
    for _ in 0..1000 {
        let event = event(&monitor.next_line());
        if event["type"] == "path_probe" {
            return (event, bytes);
        }
        let interval = event["interval_s"].as_f64().unwrap();
        let interfaces = event["interfaces"].as_array().unwrap().iter();
        let outside = interfaces.filter(|rates| rates["name"] != "lo");
        let rates = outside.flat_map(|rates| [&rates["rx_bytes_per_s"], &rates["tx_bytes_per_s"]]);
        let rates = rates.map(|rate| rate.as_f64().unwrap());
        bytes += rates.sum::<f64>() * interval;
    }
    panic!("no probe was reported");
}

#[test]
fn probe_measures_the_path_to_a_daemon_and_costs_little() {
    let link = "rate = \"100Mb/s\"\nrtt = \"40ms\"\nloss = \"5%\"";
    let Some(stage) = Stage::pair("probe_measures_the_path_to_a_daemon_and_costs_little", link)
    else {
        return;
    };
    let far = Far::start_on("monitor-probe", stage);
    let name = known(&far);
    let words = ["--json", "--interval", "200ms", "--probe", &name];
    let mut monitor = Running::start(command(&far.near, &words));
    let (probe, bytes) = next_probe(&mut monitor);
    assert_eq!(probe["host"], name.as_str(), "{probe}");
    let measured = &probe["measured"];
    let number = |field: &str| measured[field].as_f64().unwrap_or(f64::NAN);
    assert!((0.04..0.2).contains(&number("rtt_min_s")), "{probe}");
    assert!(number("rtt_mean_s") >= number("rtt_min_s"), "{probe}");
    // lost segments are sent again by TCP
    assert!((0.0..2.0).contains(&number("jitter_s")), "{probe}");
    assert_eq!(measured["sent"], 100, "{probe}");
    // 5 of 100, by chance
    assert!(number("lost") <= 30.0, "{probe}");
    assert!(number("mtu_bytes") >= 1280.0, "{probe}");
    assert!((1e6..=2e8).contains(&number("rate_bps")), "{probe}");
    // more than the handshake, and less than a full probe counts as
    assert!((20_000.0..2_000_000.0).contains(&bytes), "{bytes} bytes");
    drop(monitor);
    let stored = ["--history", "--json"];
    let outcome = self::monitor(&far.near, &stored).assert_succeeded();
    let events = assert_valid(&outcome);
    assert!(events.contains(&probe), "{events:?}");
    let results = self::monitor(&far.near, &["--history", "--perfsonar"]).assert_succeeded();
    let parse = |line: &String| serde_json::from_str(line).unwrap();
    let results = results.out.iter().map(parse);
    let of_test = |result: Value| {
        assert_eq!(result["result"]["succeeded"], true, "{result}");
        assert_eq!(result["participants"][1], name.as_str(), "{result}");
        result["test"]["type"].as_str().unwrap().to_owned()
    };
    let tests: Vec<String> = results.map(of_test).collect();
    assert_eq!(tests[..4], ["rtt", "latency", "mtu", "throughput"]);
    let table = self::monitor(&far.near, &["--history"]).assert_succeeded();
    let words = format!(" path {name}: rtt ");
    assert!(
        table.out.iter().any(|line| line.contains(&words)),
        "{table:?}"
    );
}

#[test]
fn unreachable_daemons_are_reported_and_delay_no_other_probe() {
    let far = Far::start("monitor-unknown", &[]);
    let unknown = format!("127.0.0.1:{}", far.port);
    let port = ClosedPort::new();
    let closed = format!("127.0.0.1:{}", port.number());
    // a listener that never answers
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let probes = ["--probe", &unknown, "--probe", &closed, "--probe", &silent];
    let words = [["--json", "--interval", "100ms"].as_slice(), &probes].concat();
    let mut monitor = Running::start(command(&far.near, &words));
    let mut faults = std::collections::BTreeMap::new();
    for _ in 0..2 {
        let (probe, _) = next_probe(&mut monitor);
        assert_eq!(probe["measured"], Value::Null, "{probe}");
        let host = probe["host"].as_str().unwrap().to_owned();
        faults.insert(host, probe["fault"].as_str().unwrap().to_owned());
    }
    assert!(faults[&unknown].contains("not known here"), "{faults:?}");
    assert!(faults[&closed].contains("cannot reach"), "{faults:?}");
    // samples continue while the third waits
    monitor.prints("\"type\":\"sample\"");
    monitor.signal("INT");
    let outcome = monitor.finish().assert_succeeded();
    assert_valid(&outcome);
}

#[test]
fn metrics_of_host_and_paths_are_served() {
    let near = Near::new("monitor-metrics", None);
    let port = ClosedPort::new();
    let closed = format!("127.0.0.1:{}", port.number());
    let listen = ["--metrics-listen", "127.0.0.1:0", "--probe", &closed];
    let words = [["--json", "--interval", "100ms"].as_slice(), &listen].concat();
    let mut monitor = Running::start(command(&near, &words));
    let line = monitor.says("metrics at http://");
    let address = line
        .split("http://")
        .nth(1)
        .unwrap()
        .trim_end_matches("/metrics");
    next_probe(&mut monitor);
    let mut page = String::new();
    // the page has the sample after the probe
    becomes_true("the page has the path", || {
        page.clear();
        let mut tcp = TcpStream::connect(address).unwrap();
        tcp.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        tcp.read_to_string(&mut page).unwrap();
        page.contains("lighthaul_path_up") && page.contains("lighthaul_host_cpu_seconds_total")
    });
    let path = format!("lighthaul_path_up{{host=\"{closed}\"}} 0.0");
    assert!(page.contains(&path), "{page}");
    assert!(page.contains("lighthaul_host_interface_transferred_bytes_total{device=\"lo\""));
    if lacks_tool("metrics_of_host_and_paths_are_served", "promtool") {
        return;
    }
    let (_, text) = page.split_once("\r\n\r\n").unwrap();
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let checked = promtool.wait_with_output().unwrap();
    // status 3 is advice about names, which only knows the older text format
    assert_ne!(checked.status.code(), Some(1), "{checked:?}");
}

#[test]
fn path_that_a_copy_has_used_is_probed_unless_refused() {
    let link = "rate = \"100Mb/s\"\nrtt = \"5ms\"";
    let Some(stage) = Stage::pair("path_that_a_copy_has_used_is_probed_unless_refused", link)
    else {
        return;
    };
    let far = Far::start_on("monitor-known", stage);
    let name = known(&far);
    let file = far.near.file("x", 3 << 20);
    far.push(&[], &[&file], "x").assert_succeeded();
    let words = ["--json", "--interval", "200ms"];
    let mut monitor = Running::start(command(&far.near, &words));
    let (probe, _) = next_probe(&mut monitor);
    assert_eq!(probe["host"], name.as_str(), "{probe}");
    assert!(probe["copy_rate_bps"].as_f64() > Some(1e6), "{probe}");
    drop(monitor);
    let words = [
        "--json",
        "--interval",
        "200ms",
        "--count",
        "10",
        "--no-probe",
    ];
    let outcome = self::monitor(&far.near, &words).assert_succeeded();
    let events = assert_valid(&outcome);
    assert!(
        events.iter().all(|event| event["type"] == "sample"),
        "{events:?}"
    );
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
        ["--probe-interval", "1s"],
        ["--probe-limit", "0"],
    ] {
        monitor(&near, &words).assert_failed_to_parse();
    }
}
