//! Metrics and log of a daemon.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::far::{Far, Near};
use crate::running::becomes_true;

/// A daemon with metrics, and their address.
fn watched(name: &str, options: &[&str]) -> (Far, String) {
    let options = [&["--metrics-listen", "127.0.0.1:0"], options].concat();
    let mut far = Far::start(name, &options);
    let line = far.daemon.says("metrics at http://");
    let address = line
        .split("http://")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let address = address.to_owned();
    (far, address)
}

/// Returns the response of the server at `address` to `request`.
fn ask(address: &str, request: &str) -> String {
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    answer
}

fn metrics(address: &str) -> String {
    ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
}

#[test]
fn metrics_address_in_use_is_reported() {
    let near = Near::new("metrics-taken", None);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let words = ["--listen", "127.0.0.1:0", "--metrics-listen", &taken];
    let serve = near.lighthaul(&[&["serve", "--root", "/"], &words[..]].concat());
    near.run(serve)
        .assert_failed(10, &format!("cannot serve metrics at {taken}"));
}

#[test]
fn metrics_include_bytes_and_refused_clients() {
    let (far, address) = watched("scraped", &[]);
    let file = far.near.file("x", 1_000_000);
    far.push(&[], &[&file], "x").assert_succeeded();
    let back = far.near.at("back");
    far.pull(&[], &["x"], back.to_str().unwrap())
        .assert_succeeded();
    far.pull(&[], &["gone"], back.to_str().unwrap())
        .assert_failed(3, "gone");
    let mut stranger = far.near.cp(&["--pin", &far.pin, "--key"]);
    stranger
        .arg(far.near.at("other-key"))
        .arg(&file)
        .arg(far.place("y"));
    far.near
        .run(stranger)
        .assert_failed(13, "not allowed there");
    drop(TcpStream::connect(("127.0.0.1", far.port)).unwrap());
    let wanted = [
        "lighthaul_sessions 0",
        "lighthaul_sessions_ended_total{code=\"0\"} 2",
        "lighthaul_sessions_ended_total{code=\"3\"} 1",
        "lighthaul_entries_total{direction=\"in\"} 1",
        "lighthaul_entries_total{direction=\"out\"} 1",
        "lighthaul_refused_total{reason=\"key\"} 1",
        "lighthaul_refused_total{reason=\"handshake\"} 1",
        "lighthaul_rate_bytes_per_second 0",
    ];
    for line in wanted {
        // a session is counted when it has ended here, which may be after it ended there
        becomes_true(line, || metrics(&address).lines().any(|l| l == line));
    }
    let page = metrics(&address);
    assert!(
        page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("# EOF\n"),
        "{page}"
    );
    let bytes = |direction: &str| {
        let name = format!("lighthaul_transferred_bytes_total{{direction=\"{direction}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap().parse::<u64>().unwrap()
    };
    assert!(
        bytes("in") >= 1_000_000 && bytes("out") >= 1_000_000,
        "{page}"
    );
}

#[test]
fn metrics_server_continues_after_malformed_requests() {
    let (_far, address) = watched("odd-scrapers", &[]);
    for (request, answer) in [
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
        ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
        ("\r\n\r\n", "HTTP/1.1 405 "),
    ] {
        assert!(ask(&address, request).starts_with(answer), "{request:?}");
    }
    let mut endless = TcpStream::connect(&address).unwrap();
    endless.write_all(&[b'x'; 10_000]).ok();
    drop(TcpStream::connect(&address).unwrap());
    assert!(metrics(&address).starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn json_log_has_one_object_per_line() {
    let (mut far, _) = watched("json-log", &["--log-format", "json"]);
    let file = far.near.file("x", 10);
    far.push(&[], &[&file], "x").assert_succeeded();
    far.daemon.says("1 entry, 10 bytes");
    far.daemon.signal("TERM");
    let outcome = far.daemon.finish();
    let objects = outcome
        .err
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let session = objects
        .into_iter()
        .find(|o| o["message"].as_str().unwrap().contains("10 bytes"));
    let session = session.unwrap();
    assert_eq!(
        (&session["level"], &session["span"]["client"]),
        (&"INFO".into(), &"tester".into())
    );
}
