//! The daemon, the gateway, the scheduler, the service of a domain and the worker of jobs as units of systemd.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use lighthaul_testkit::lacks_tool;

use crate::far::{Near, PROGRAM};
use crate::running::Running;

const UNITS: [&str; 5] = [
    "lighthaul.service",
    "lighthaul-domain.service",
    "lighthaul-gateway.service",
    "lighthaul-jobs.service",
    "lighthaul-scheduler.service",
];

/// A unit, with the program that was built.
fn unit(name: &str) -> String {
    let path = format!("{}/../../dist/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("/usr/local/bin/lighthaul "));
    text.replace("/usr/local/bin/lighthaul", PROGRAM)
}

#[test]
fn systemd_units_start_valid_commands() {
    let near = Near::new("unit-line", None);
    for name in UNITS {
        let unit = unit(name);
        let line = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let words: Vec<_> = line.unwrap().split(' ').skip(1).chain(["--help"]).collect();
        near.run(near.lighthaul(&words)).assert_succeeded();
    }
}

#[test]
fn units_are_started_again_for_as_long_as_it_takes() {
    for name in UNITS {
        let unit = unit(name);
        let (head, service) = unit.split_once("[Service]").unwrap();
        assert!(head.contains("\nStartLimitIntervalSec=0\n"), "{name}");
        assert!(
            service.contains("\nRestart=on-failure\nRestartSec=1\n"),
            "{name}"
        );
    }
}

#[test]
fn services_with_times_of_bookings_start_after_the_clock_is_right() {
    for name in ["lighthaul-domain.service", "lighthaul-scheduler.service"] {
        let unit = unit(name);
        for key in ["After=", "Wants="] {
            let line = unit
                .lines()
                .find_map(|line| line.strip_prefix(key))
                .unwrap();
            assert!(
                line.split(' ').any(|one| one == "time-sync.target"),
                "{name}"
            );
        }
    }
}

#[test]
fn domain_may_ask_whether_the_clock_is_right() {
    let unit = unit("lighthaul-domain.service");
    // the other value refuses the calls below
    assert!(unit.contains("\nProtectClock=no\n"));
    let mut lines = unit.lines();
    let calls = lines.find_map(|line| line.strip_prefix("SystemCallFilter="));
    let calls: Vec<_> = calls.unwrap().split(' ').collect();
    assert!(calls.contains(&"adjtimex") && calls.contains(&"clock_adjtime"));
    let mut lines = unit.lines();
    let capabilities = lines.find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    assert_eq!(
        capabilities,
        Some("CAP_NET_ADMIN"),
        "it cannot set the clock"
    );
}

#[test]
fn systemd_accepts_the_units() {
    let test = "systemd_accepts_the_units";
    if lacks_tool(test, "systemd-analyze") {
        return;
    }
    let near = Near::new("unit-verified", None);
    for name in UNITS {
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
fn scheduler_notifies_readiness_when_requests_are_accepted() {
    let near = Near::new("unit-scheduler", None);
    let (path, topology) = (near.at("notify"), near.at("network.toml"));
    let link = "[[link]]\nname = \"l\"\nfrom = \"a\"\nto = \"b\"\ncapacity = \"1Gb/s\"\n";
    fs::write(&topology, link).unwrap();
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let mut serve = near.lighthaul(&["scheduler", "--listen", "127.0.0.1:0", "--key"]);
    serve
        .arg(near.at("host-key"))
        .arg("--topology")
        .arg(&topology);
    serve.arg("--store").arg(near.at("books"));
    serve.arg("--tokens").arg(near.at("tokens"));
    serve.env("NOTIFY_SOCKET", &path);
    let mut scheduler = Running::start(serve);
    let mut state = [0; 100];
    let len = socket.recv(&mut state).unwrap();
    assert!(state[..len].starts_with(b"READY=1"));
    scheduler.says("booking at");
    scheduler.signal("TERM");
    assert_eq!(scheduler.finish().code, Some(0));
}

#[test]
fn unit_notifies_readiness_when_its_ports_are_open() {
    let near = Near::new("unit-ready", None);
    let path = near.at("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let mut serve = near.lighthaul(&["serve", "--root", "/", "--listen", "127.0.0.1:0", "--key"]);
    serve.arg(near.at("host-key")).env("NOTIFY_SOCKET", &path);
    let mut daemon = Running::start(serve);
    let mut state = [0; 100];
    let len = socket.recv(&mut state).unwrap();
    assert!(state[..len].starts_with(b"READY=1"));
    daemon.says("listening on");
    daemon.signal("TERM");
    assert_eq!(daemon.finish().code, Some(0));
}
