//! Refused programs and refused targets.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;

use crate::pair::{B, CONNECT, Pair, SOCKS, gateway, inner, say, signal};
use crate::programs::socks;
use crate::running::{Running, becomes_true};
use crate::status::shown;
use lighthaul_testkit::allowance;

/// A test that measures the time until a revoked right has its effect.
mod quiet {
    use super::*;

    #[test]
    fn revoked_gateway_right_ends_sessions() {
        let name = "revoked_gateway_right_ends_sessions";
        let Some(mut pair) = Pair::start_quiet(name, &[], &[]) else {
            return;
        };
        let mut ends = pair.session();
        let allowed = pair.scratch.at("allowed");
        let allowed = allowed.to_str().unwrap();
        let key = say(&["key", "--key", pair.scratch.at("a-key").to_str().unwrap()]);
        let clock = Clock::start();
        say(&["allow", &key, "a", "--allowed", allowed]);
        crate::programs::assert_reset("the program", &mut ends.program);
        pair.egress.says("ending the sessions of this link");
        pair.egress
            .says("the right of the other gateway was withdrawn");
        becomes_true("the refusal is shown", || {
            shown(&pair.scratch, "a")["refused"] == true
        });
        let took = clock.now().since(Instant::ZERO);
        assert!(took < Duration::from_secs(5), "it went on for {took:?}");
        let (_listener, address) = pair.target();
        assert_eq!(pair.reach(&address.to_string()).unwrap_err(), 1);
    }
}

#[test]
fn refused_programs_take_few_lines_of_the_log() {
    let Some(mut pair) = Pair::start("refused_programs_take_few_lines_of_the_log") else {
        return;
    };
    for _ in 0..REFUSED {
        let mut program = pair.dial(SOCKS);
        program.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        program.read_to_end(&mut Vec::new()).ok();
    }
    let summary = pair.ingress.says("more refusals in 10 s are not listed");
    println!("{summary}");
    signal(&pair.ingress, "TERM");
    let said = pair.ingress.finish().err;
    let lines = said.iter().filter(|line| line.contains("was refused"));
    let lines = lines.count();
    assert!((1..=REFUSED / 6).contains(&lines), "{lines}");
}

#[test]
fn refused_targets_are_reported_to_programs() {
    let Some(mut pair) = Pair::start("refused_targets_are_reported_to_programs") else {
        return;
    };
    assert_eq!(pair.reach("10.77.0.1:9").unwrap_err(), 2);
    pair.egress
        .says("cannot reach 10.77.0.1:9: the gateway does not allow this target");
    let (listener, address) = pair.target();
    drop(listener);
    assert_eq!(pair.reach(&address.to_string()).unwrap_err(), 5);
    pair.egress.says(": the target refused the connection");
    assert_eq!(pair.reach("absent.invalid:80").unwrap_err(), 4);
    pair.egress
        .says("cannot reach absent.invalid:80: the target's name cannot be resolved");
    for (target, status) in [
        ("10.77.0.1:9", "HTTP/1.1 403 "),
        (&address.to_string(), "HTTP/1.1 502 "),
    ] {
        let said = ask(&pair, target);
        assert!(said.starts_with(status), "{target}: {said}");
    }
}

#[test]
fn egress_host_needs_a_rule_with_its_address() {
    let name = "egress_host_needs_a_rule_with_its_address";
    let wide = [
        "--allow",
        "10.77.0.0/24:*,192.0.2.0/24:*,198.51.100.0/24:*,198.51.100.9:*",
    ];
    let Some(pair) = Pair::start_with(name, &[], &wide) else {
        return;
    };
    assert_eq!(pair.reach("10.77.0.1:9").unwrap_err(), 5, "its neighbor");
    let add = |address: &str| {
        let words = ["addr", "add", address, "dev", "lo"];
        let command = || std::process::Command::new("ip").args(words).status();
        let status = pair.stage.lab.within("b", command).unwrap();
        assert!(status.success(), "{address}");
    };
    // a service of the host that listens everywhere, and addresses that come while the gateway runs
    let everywhere = || std::net::TcpListener::bind("0.0.0.0:22");
    let _service = pair.stage.lab.within("b", everywhere).unwrap();
    for address in ["192.0.2.7", "198.51.100.9"] {
        add(&format!("{address}/32"));
    }
    assert_eq!(pair.reach("192.0.2.7:22").unwrap_err(), 2);
    assert!(pair.reach("198.51.100.9:22").is_ok());
    assert!(
        pair.reach("10.77.0.2:22").is_ok(),
        "the pair's own rule has this address"
    );
}

#[test]
fn links_of_one_key_are_limited() {
    let name = "links_of_one_key_are_limited";
    let limits = ["--links-per-key", "1"];
    let Some(mut pair) = Pair::start_with(name, &[], &limits) else {
        return;
    };
    let pin = say(&["key", "--key", pair.scratch.at("b-key").to_str().unwrap()]);
    // another gateway that has the key of the first
    let mut second = other_ingress(&pair, &pin);
    let told = second.says("WARN 10.77.0.2:4810: ");
    assert!(
        told.contains("your key already holds 1, the maximum of one key"),
        "{told}"
    );
    let mut ends = pair.session();
    ends.program.write_all(b"x").unwrap();
    ends.target.read_exact(&mut [0]).unwrap();
    pair.ingress.kill();
    second.says("the link carries sessions");
}

#[test]
fn unknown_gateway_gets_an_error() {
    let name = "unknown_gateway_gets_an_error";
    let Some(mut pair) = Pair::start(name) else {
        return;
    };
    pair.ingress.kill();
    let pin = say(&["key", "--key", pair.scratch.at("b-key").to_str().unwrap()]);
    fs::remove_file(pair.scratch.at("a-key")).unwrap();
    let key = say(&["key", "--key", pair.scratch.at("a-key").to_str().unwrap()]);
    let mut stranger = other_ingress(&pair, &pin);
    let told = stranger.says("WARN 10.77.0.2:4810: ");
    assert!(
        told.contains(&key) && told.contains("lighthaul allow"),
        "{told}"
    );
    stranger.kill();

    let allowed = pair.scratch.at("allowed");
    say(&[
        "allow",
        &key,
        "other",
        "--allowed",
        allowed.to_str().unwrap(),
    ]);
    let mut guest = other_ingress(&pair, &pin);
    let told = guest.says("WARN 10.77.0.2:4810: ");
    assert!(told.contains("--gateway"), "{told}");
    assert_refused_at_once(&pair);

    // a refused gateway connects by itself when its key is allowed
    let allowed = allowed.to_str().unwrap();
    say(&["allow", &key, "other", "--gateway", "--allowed", allowed]);
    becomes_true("the link is up", || {
        shown(&pair.scratch, "a")["connected"] == true
    });
    let (_listener, address) = pair.target();
    assert!(socks(pair.dial("127.0.0.1:1081"), &address.to_string()).is_ok());
    guest.kill();
    let told = guest.finish().err;
    let count = |words: &str| told.iter().filter(|line| line.contains(words)).count();
    assert_eq!(
        count("WARN 10.77.0.2:4810: "),
        1,
        "it is reported once: {told:?}"
    );
    assert_eq!(
        count("connected to"),
        1,
        "only once it was let in: {told:?}"
    );
}

/// Asserts that a refused gateway reports it, and refuses its programs without delay.
fn assert_refused_at_once(pair: &Pair) {
    becomes_true("the refusal is shown", || {
        shown(&pair.scratch, "a")["refused"] == true
    });
    let clock = Clock::start();
    for _ in 0..3 {
        assert_eq!(
            socks(pair.dial("127.0.0.1:1081"), "10.77.0.2:9").unwrap_err(),
            1
        );
    }
    let took = clock.now().since(Instant::ZERO);
    assert!(took < allowance(1), "programs hang for {took:?}");
    becomes_true("it was refused again", || {
        shown(&pair.scratch, "a")["sessions_refused"] == 3
            && clock.now() > Instant::ZERO + Duration::from_secs(1)
    });
}

#[test]
fn silent_program_times_out() {
    let Some(pair) = Pair::start("silent_program_times_out") else {
        return;
    };
    let id = inner(&pair.ingress);
    let files = || fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
    let before = files();
    let mut silent = pair.dial(SOCKS);
    let mut heard = Vec::new();
    silent.read_to_end(&mut heard).unwrap();
    assert!(heard.is_empty());
    becomes_true("nothing is left of it", || files() == before);
}

/// Starts an ingress with another key instead of the one that has ended.
fn other_ingress(pair: &Pair, pin: &str) -> Running {
    let mut command = gateway(&pair.stage, &pair.scratch, "a");
    command
        .args(["--peer", "10.77.0.2:4810", "--pin", pin])
        .args(["--socks", "127.0.0.1:1081"])
        .env("LIGHTHAUL_LOG", "info");
    Running::start(command)
}

/// Returns the response of the gateway to HTTP CONNECT.
fn ask(pair: &Pair, target: &str) -> String {
    let mut stream = pair.dial(CONNECT);
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {B}\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

/// Programs that are refused in a few seconds.
const REFUSED: usize = 300;
