//! Hosts at the edges that vanish, and readers that do not read.

use std::fs;
use std::io::{ErrorKind, Read};
use std::time::Duration;

use lighthaul_io::clock::Clock;

use crate::pair::{Pair, inner, pass};
use crate::programs::{assert_reset, hear, tell};

#[test]
fn a_host_that_vanishes_ends_its_sessions() {
    let keepalive = ["--keepalive", "2s"];
    let Some(pair) = Pair::start_with("a_host_that_vanishes_ends_its_sessions", &[], &keepalive)
    else {
        return;
    };
    let mut ends = pair.session();
    let port = ends.target.local_addr().unwrap().port();
    pair.stage.block("b", &format!("tcp dport {port}"));
    assert_reset("the program", &mut ends.program);
}

#[test]
fn who_reads_nothing_holds_up_nobody_and_takes_no_more_than_its_memory() {
    let name = "who_reads_nothing_holds_up_nobody_and_takes_no_more_than_its_memory";
    let memory = ["--memory", "32MiB"];
    let Some(pair) = Pair::start_with(name, &memory, &memory) else {
        return;
    };
    let alone = time_to_hear(&pair);
    let slow: Vec<_> = (0..SLOW).map(|_| pair.session()).collect();
    let sayers: Vec<_> = slow
        .iter()
        .map(|ends| tell(&ends.target, vec![1; 40_000_000]))
        .collect();
    pass(Duration::from_secs(4));
    let beside = time_to_hear(&pair);
    assert!(
        beside < 3 * alone,
        "{beside:?} beside those who do not read, {alone:?} without"
    );
    for id in [inner(&pair.ingress), inner(&pair.egress)] {
        let most = most_memory(id);
        assert!(most < 132 << 10, "{most} KiB of memory");
    }
    // they were held up, not cut off
    let mut first = slow.into_iter().next().unwrap();
    first.program.read_exact(&mut vec![0; 40_000_000]).unwrap();
    drop(pair);
    for sayer in sayers {
        if let Err(why) = sayer.join().unwrap() {
            let is_cut = matches!(
                why.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            );
            assert!(is_cut, "{why}");
        }
    }
}

/// How long a transfer takes whose reader reads.
fn time_to_hear(pair: &Pair) -> Duration {
    let mut ends = pair.session();
    let clock = Clock::start();
    let before = clock.now();
    let sayer = tell(&ends.target, vec![2; 20_000_000]);
    let (heard, end) = hear(&mut ends.program);
    end.unwrap();
    assert_eq!(heard.len(), 20_000_000);
    sayer.join().unwrap().unwrap();
    clock.now().since(before)
}

/// The most memory that a process has had, in KiB.
fn most_memory(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// Readers that do not read.
const SLOW: usize = 4;
