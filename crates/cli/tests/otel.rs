//! OpenTelemetry: what a collector receives over OTLP and HTTP, traces from a daemon and metrics from a monitor.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "cp/far.rs"]
mod far;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "cp/running.rs"]
mod running;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "cp/scratch.rs"]
mod scratch;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "cp/stage.rs"]
mod stage;

use far::{Far, Near};
use running::Running;

#[test]
fn session_is_exported_as_a_trace() {
    let (endpoint, requests) = collector();
    let mut far = Far::start_as("otel", |serve| {
        serve.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    });
    let file = far.near.file("x", 100_000);
    far.push(&[], &[&file], "x").assert_succeeded();
    far.daemon.signal("TERM");
    far.daemon.says("stopping");
    let minute = Duration::from_mins(1);
    loop {
        let (line, body) = requests.recv_timeout(minute).unwrap();
        assert_eq!(line, "POST /v1/traces HTTP/1.1");
        assert!(has(&body, "lighthaul"), "the service has no name: {body:?}");
        if has(&body, "session") && has(&body, "tester") {
            return;
        }
    }
}

#[test]
fn monitor_exports_metrics_of_the_host() {
    let (endpoint, requests) = collector();
    let near = Near::new("otel-monitor", None);
    let mut monitor = near.lighthaul(&["monitor", "--json", "--no-store", "--interval", "100ms"]);
    monitor
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
        .env("OTEL_METRIC_EXPORT_INTERVAL", "300");
    let monitor = Running::start(monitor);
    let minute = Duration::from_mins(1);
    loop {
        let (line, body) = requests.recv_timeout(minute).unwrap();
        assert_eq!(line, "POST /v1/metrics HTTP/1.1");
        let words = [
            "lighthaul.host_cpu",
            "lighthaul.host_memory",
            "iowait",
            "By",
        ];
        if words.iter().all(|word| has(&body, word)) {
            break;
        }
    }
    monitor.signal("INT");
    monitor.finish().assert_succeeded();
}

/// Returns true if a body in protobuf, which has strings as they are, has this one.
fn has(body: &[u8], word: &str) -> bool {
    body.windows(word.len()).any(|part| part == word.as_bytes())
}

/// A collector at an address: the first line and the body of each request that it has taken.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (told, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let told = told.clone();
            thread::spawn(move || serve(stream, &told));
        }
    });
    (address, requests)
}

/// Takes requests until the caller hangs up.
fn serve(stream: TcpStream, told: &Sender<(String, Vec<u8>)>) -> Option<()> {
    let mut answers = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let len = head.iter().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then_some(value)
        });
        let mut body = vec![0; len?.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        told.send((head[0].clone(), body)).ok()?;
        let answer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
        answers.write_all(answer.as_bytes()).ok()?;
    }
}
