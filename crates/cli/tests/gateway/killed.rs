//! Gateways that die in the middle.

use std::io::{ErrorKind, Read, Write};
use std::thread;

use crate::pair::Pair;
use crate::programs::{Ends, assert_reset, echo, hear, tell};

/// Makes the target send more than can have crossed, and reads the beginning of it.
fn begin(ends: &mut Ends) -> thread::JoinHandle<std::io::Result<()>> {
    let sayer = tell(&ends.target, vec![7; 200_000_000]);
    let mut beginning = vec![0; 1_000_000];
    ends.program.read_exact(&mut beginning).unwrap();
    sayer
}

/// Options of an egress with little memory and little patience.
const SMALL: [&str; 4] = ["--memory", "64MiB", "--patience", "2s"];

/// Asserts that a session of a new program works.
fn assert_carries(pair: &Pair) {
    let (listener, address) = pair.target();
    let target = echo(listener, 1);
    let mut program = pair.reach(&address.to_string()).unwrap();
    program.write_all(b"still there?").unwrap();
    program.shutdown(std::net::Shutdown::Write).unwrap();
    let (heard, end) = hear(&mut program);
    end.unwrap();
    assert_eq!(heard, b"still there?");
    target.join().unwrap();
}

#[test]
fn killed_egress_resets_sessions_and_its_successor_carries_new_sessions() {
    let name = "killed_egress_resets_sessions_and_its_successor_carries_new_sessions";
    let Some(mut pair) = Pair::start_with(name, &[], &SMALL) else {
        return;
    };
    let mut ends = pair.session();
    let sayer = begin(&mut ends);
    pair.kill_egress();
    assert!(
        sayer.join().unwrap().is_err(),
        "the target could say it all"
    );
    pair.restart_egress();
    assert_reset("the program", &mut ends.program);
    assert_carries(&pair);
}

#[test]
fn killed_ingress_resets_both_ends() {
    let name = "killed_ingress_resets_both_ends";
    let Some(mut pair) = Pair::start_with(name, &[], &SMALL) else {
        return;
    };
    let mut ends = pair.session();
    ends.program.write_all(&vec![1; 100_000]).unwrap();
    let sayer = begin(&mut ends);
    pair.ingress.kill();
    assert_reset("the program", &mut ends.program);
    // the writer notices it first
    let why = sayer.join().unwrap().unwrap_err();
    assert_eq!(
        why.kind(),
        ErrorKind::ConnectionReset,
        "the target saw {why}"
    );
    pair.restart_ingress();
    assert_carries(&pair);
}

#[test]
fn program_without_a_link_gets_an_error() {
    let forward = ["--forward", "127.0.0.1:7001=10.77.0.2:7001"];
    let Some(mut pair) = Pair::start_with("program_without_a_link_gets_an_error", &forward, &[])
    else {
        return;
    };
    pair.kill_egress();
    pair.ingress.says("the connection of a link ended");
    assert_eq!(pair.reach("10.77.0.2:7001").unwrap_err(), 1);
    assert_reset("who cannot be told", &mut pair.dial("127.0.0.1:7001"));
}
