//! The daemon and the gateway as units of systemd.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use crate::far::{Near, PROGRAM};
use crate::running::Running;

/// The units.
const NAMES: [&str; 2] = ["lighthaul.service", "lighthaul-gateway.service"];

/// A unit, with the program that was built.
fn unit(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist");
    let text = fs::read_to_string(format!("{folder}/{name}")).unwrap();
    assert!(text.contains("/usr/local/bin/lighthaul"));
    text.replace("/usr/local/bin/lighthaul", PROGRAM)
}

#[test]
fn what_the_unit_starts_is_understood() {
    let near = Near::new("unit-line", None);
    for unit in NAMES.map(unit) {
        let line = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let words: Vec<_> = line.unwrap().split(' ').skip(1).chain(["--help"]).collect();
        near.run(near.lighthaul(&words)).assert_succeeded();
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: there is no systemd-analyze here");
        return;
    }
    let near = Near::new("unit-verified", None);
    for name in NAMES {
        let path = near.at(name);
        fs::write(&path, unit(name)).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(&path);
        let outcome = near.run(verify).assert_succeeded();
        assert!(!outcome.said(name), "{outcome:?}");
    }
}

#[test]
fn a_unit_is_ready_when_its_ports_are_open() {
    let near = Near::new("unit-ready", None);
    let path = near.at("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let mut serve = near.lighthaul(&["serve", "--listen", "127.0.0.1:0", "--key"]);
    serve.arg(near.at("host-key")).env("NOTIFY_SOCKET", &path);
    let mut daemon = Running::start(serve);
    let mut state = [0; 100];
    let len = socket.recv(&mut state).unwrap();
    assert!(state[..len].starts_with(b"READY=1"));
    daemon.says("listening on");
    daemon.signal("TERM");
    assert_eq!(daemon.finish().code, Some(0));
}
