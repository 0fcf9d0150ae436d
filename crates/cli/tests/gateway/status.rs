//! Status, metrics and logs of gateways.

use std::io::{Read, Write};

use serde_json::Value;

use crate::pair::{Pair, socket};
use crate::programs::{echo, hear, tell};
use crate::running::{Outcome, Running, becomes_true};
use crate::schema::assert_valid;
use crate::scratch::Scratch;

#[test]
fn status_and_metrics_show_sessions_and_bytes() {
    let name = "status_and_metrics_show_sessions_and_bytes";
    let metrics = ["--metrics-listen", "127.0.0.1:9481"];
    let Some(pair) = Pair::start_with(name, &metrics, &metrics) else {
        return;
    };
    let (listener, address) = pair.target();
    let target = echo(listener, 1);
    let mut done = pair.reach(&address.to_string()).unwrap();
    tell(&done, vec![3; 300_000]).join().unwrap().unwrap();
    assert_eq!(hear(&mut done).0.len(), 300_000);
    target.join().unwrap();
    let _open = pair.session();
    assert_eq!(pair.reach("10.77.0.1:9").unwrap_err(), 2);

    becomes_true("the counters are up to date", || {
        let link = shown(&pair.scratch, "a");
        link["sessions_ended"] == 1 && link["sessions_refused"] == 1
    });
    let link = shown(&pair.scratch, "a");
    for (name, value) in [
        ("sessions", 1),
        ("bytes_out", 300_000),
        ("bytes_in", 300_000),
    ] {
        assert_eq!(link[name], value, "{name}: {link}");
    }
    assert_eq!(link["connected"], true);
    assert_eq!(link["side"], "caller");
    assert!(link["slabs"].as_u64().unwrap() > 0, "{link}");
    assert_eq!(shown(&pair.scratch, "b")["side"], "called");

    let table = status(&[
        "--socket",
        socket(&pair.scratch, "a").to_str().unwrap(),
        "--once",
    ]);
    assert!(table.out[0].contains("SESSIONS"), "{table:?}");
    assert!(table.out[1].contains("10.77.0.2:4810"), "{table:?}");

    let page = scrape(&pair, "a");
    for line in [
        "lighthaul_gateway_sessions{link=\"0\",peer=\"10.77.0.2:4810\",side=\"caller\"} 1",
        "lighthaul_gateway_carried_bytes_total{link=\"0\",peer=\"10.77.0.2:4810\",side=\"caller\",direction=\"out\"} 300000",
        "lighthaul_gateway_sessions_ended_total{link=\"0\",peer=\"10.77.0.2:4810\",side=\"caller\",how=\"refused\"} 1",
    ] {
        assert!(page.lines().any(|l| l == line), "{line} is not in {page}");
    }
    let page = scrape(&pair, "b");
    assert!(page.contains("lighthaul_gateway_sessions{"), "{page}");
}

#[test]
fn status_without_a_gateway_is_an_error() {
    let outcome = status(&["--socket", "/nowhere/gateway.sock", "--once"]);
    outcome.assert_failed(10, "no gateway listens on it (--socket names another)");
}

/// The link of the gateway on a host.
pub(crate) fn shown(scratch: &Scratch, host: &str) -> Value {
    links(scratch, host).remove(0)
}

/// Returns the status of the gateway on a host.
pub(crate) fn links(scratch: &Scratch, host: &str) -> Vec<Value> {
    links_at(&socket(scratch, host))
}

/// Returns the status of the gateway with this socket.
pub(crate) fn links_at(socket: &std::path::Path) -> Vec<Value> {
    let outcome = status(&["--socket", socket.to_str().unwrap(), "--once", "--json"]);
    let event = assert_valid(&outcome.assert_succeeded()).remove(0);
    event["links"].as_array().unwrap().clone()
}

fn status(words: &[&str]) -> Outcome {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lighthaul"));
    command.args(["gateway", "status"]).args(words);
    Running::start(command).finish()
}

/// Returns the metrics of a host.
fn scrape(pair: &Pair, host: &str) -> String {
    let call = || std::net::TcpStream::connect("127.0.0.1:9481");
    let mut stream = pair.stage.lab.within(host, call).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}
